"""What the cases of these modules share: perceptrons, data, and an error."""

import itertools

import torch
from sklearn.datasets import load_sample_images
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data


def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


def data_of(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one."""
    return Data(*pair[0].tensors, *pair[1].tensors)


def tables(pair: samples.Pair) -> Data:
    """Returns a pair whose two columns are standardised."""
    return data_of(samples.standardised(pair, 0, 1))


def centred(data: Data) -> Data:
    """Returns digits with mean 0 and deviation 1."""
    std, mean = torch.std_mean(data.inputs)
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def coordinates(seed: int, *, raw: bool) -> Data:
    """Rows and columns of 4,000 points of a photograph, as pixels or from -1 to 1, and their standardised colours."""
    picture = torch.from_numpy(load_sample_images().images[0].copy()).float()
    generator = torch.Generator().manual_seed(seed)
    height, width = picture.shape[:2]
    rows = torch.randint(height, (4000,), generator=generator)
    columns = torch.randint(width, (4000,), generator=generator)
    colours = picture[rows, columns]
    colours = (colours - colours.mean(0)) / colours.std(0)
    places = torch.stack([rows, columns], 1).float()
    if not raw:
        places = places / torch.tensor([height / 2, width / 2]) - 1
    return Data(places[:3000], colours[:3000], places[3000:], colours[3000:])


class Gru(nn.Module):
    """Reads padded codes and answers from its mean state."""

    def __init__(self, classes: int, width: int = 40, codes: int = samples.LETTERS) -> None:
        super().__init__()
        self.embed = nn.Embedding(codes, 24, padding_idx=0)
        self.gru, self.head = nn.GRU(24, width, batch_first=True), nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.gru(self.embed(codes))[0].mean(1))


class Gaps(nn.Module):
    """Predicts the next character with causal convolutions."""

    def __init__(self, codes: int, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(codes, width)
        self.first, self.second = nn.Conv1d(width, width, 3), nn.Conv1d(width, width, 3)
        self.head = nn.Linear(width, codes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits (batch, codes, length)."""
        hidden = self.embed(codes).transpose(1, 2)
        for layer in (self.first, self.second):
            hidden = hidden + layer(nn.functional.pad(hidden, (2, 0))).relu()
        return self.head(hidden.transpose(1, 2)).transpose(1, 2)


class Words(nn.Module):
    """Attention over the rows of a digit, with layer norms after the sums."""

    def __init__(self, layers: int, width: int = 32) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, width), nn.Parameter(torch.randn(1, 8, width) * 0.3)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        hidden = self.embed(pixels.reshape(-1, 8, 8)) + self.place
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden.mean(1))
