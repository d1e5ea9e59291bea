"""What several modules fine-tune: an encoder of letters that has learnt to fill gaps, and thin matrices for it."""

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples

WIDTH, LENGTH, CLASSES = 32, 24, len(samples.SCRIPTS)


class Encoder(nn.Module):
    """A transformer over the letters of a name, which puts out a vector for each."""

    def __init__(self, layers: int = 2, norm_first: bool = True) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        states = self.letters(names) + self.places
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=names == 0)
        return self.norm(states)


class Classifier(nn.Module):
    """The mean over a name's letters, and a head for its script."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        seen = (names > 0).float()[..., None]
        return self.head((self.encoder(names) * seen).sum(1) / seen.sum(1).clamp(min=1))


def pretrained() -> Encoder:
    """Returns an encoder as it would be downloaded: it has learnt to fill gaps in names."""
    encoder = Encoder()
    encoder.load_state_dict(_checkpoint())
    return encoder


class Thin(nn.Module):
    """LoRA: a frozen layer and beside it the product of two thin matrices, of which one starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    @property
    def weight(self) -> torch.Tensor:
        """What the layer's weight would be if both were merged."""
        return self.layer.weight + 2 * self.up @ self.down

    @property
    def bias(self) -> torch.Tensor:
        return self.layer.bias

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return functional.linear(states, self.weight, self.bias)


def thinned(encoder: Encoder) -> Encoder:
    """Freezes the encoder, and puts thin matrices into its feed-forward layers."""
    encoder.requires_grad_(False)
    for layer in encoder.layers:
        layer.linear1, layer.linear2 = Thin(layer.linear1), Thin(layer.linear2)
    return encoder


def judged(model: nn.Module, test: torch.utils.data.TensorDataset) -> float:
    """Returns the accuracy in eval mode."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        outputs = model(test.tensors[0])
    model.train(was_training)
    return samples.accuracy(outputs, test.tensors[1])


@cache
def _checkpoint() -> dict[str, torch.Tensor]:
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(77)
        names = samples.names(77, each=400)[0].tensors[0]
        encoder, head = Encoder(), nn.Linear(WIDTH, samples.LETTERS)
        optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=3e-3)
        for _ in range(250):
            rows = names[torch.randint(len(names), (48,))]
            gaps = (torch.rand(rows.shape) < 0.2) & (rows > 0)
            outputs = head(encoder(rows.masked_fill(gaps, samples.LETTERS - 1)))
            loss = functional.cross_entropy(outputs[gaps], rows[gaps])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return encoder.state_dict()
