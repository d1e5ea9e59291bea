"""The models that the cases share, and how good they are."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from examples.zoo.tuned.opened7.supplies import WORDS, Rows


def mlp(*widths: int, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these widths with activations between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), act()]
    return nn.Sequential(*layers[:-1])


def convnet(width: int = 12, *, classes: int = 10) -> nn.Sequential:
    """Returns two convolutions with batch normalisation for pictures of 8×8, and a head."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * width, classes),
    )  # fmt: skip


class Flat(nn.Module):
    """A model whose last dimension of one value is squeezed away."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).squeeze(-1)


class Reader(nn.Module):
    """Embeds words, reads them with a recurrent layer, and judges the mean of what it puts out."""

    def __init__(
        self, kind: type[nn.RNNBase] = nn.GRU, *, classes: int = 4, width: int = 24, codes: int = WORDS
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(codes, 12)
        self.rnn = kind(12, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(codes))[0].mean(1))


class Listener(nn.Module):
    """Reads a series (N, T, 1) with a recurrent layer and judges its last state."""

    def __init__(self, rnn: nn.RNNBase, classes: int) -> None:
        super().__init__()
        self.rnn, self.head = rnn, nn.Linear(rnn.hidden_size, classes)

    def forward(self, series: Tensor) -> Tensor:
        return self.head(self.rnn(series)[0][:, -1])


class Forecaster(nn.Module):
    """Says a value for each time of a series (N, T, 1); ``top`` bounds what it may say."""

    def __init__(self, kind: type[nn.RNNBase] = nn.GRU, *, width: int = 20, top: nn.Module | None = None) -> None:
        super().__init__()
        self.rnn, self.head = kind(1, width, batch_first=True), nn.Linear(width, 1)
        self.top = top or nn.Identity()

    def forward(self, series: Tensor) -> Tensor:
        return self.top(self.head(self.rnn(series)[0]))


class Variational(nn.Module):
    """An autoencoder of pictures (N, 64) whose code (N, 8) is drawn around a mean while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = mlp(64, 48, 16), mlp(8, 48, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the pictures as decoded, and the mean divergence of the codes from a standard normal."""
        mean, log_var = self.encoder(x).chunk(2, 1)
        code = mean + (0.5 * log_var).exp() * torch.randn_like(mean) if self.training else mean
        divergence = 0.5 * (mean.square() + log_var.exp() - log_var - 1).sum(1).mean()
        return self.decoder(code), divergence


class Attentive(nn.Module):
    """A transformer's encoder over words, whose mean is classified."""

    def __init__(
        self, *, layers: int = 2, classes: int = 4, width: int = 24, length: int = 16, pre: bool = True
    ) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        block = nn.TransformerEncoderLayer(width, 3, 2 * width, dropout=0.0, batch_first=True, norm_first=pre)
        self.body = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)
        for weight in self.body.parameters():  # its layers are copies of one: their first weights are drawn anew
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def forward(self, codes: Tensor) -> Tensor:
        placed = self.embed(codes) + self.place(torch.arange(codes.shape[1]))
        return self.head(self.body(placed).mean(1))


def outputs_of(model: nn.Module, x: Tensor) -> Any:
    """Returns the outputs in eval mode; the model stays in it."""
    model.eval()
    with torch.no_grad():
        return model(x)


def right(model: nn.Module, rows: Rows) -> float:
    """Returns the share of other rows whose class is found: the largest output, or the sign of the only one."""
    out = outputs_of(model, rows.x_test)
    guess = out.argmax(-1) if out.dim() > rows.y_test.dim() and out.shape[-1] > 1 else (out > 0).view(rows.y_test.shape)
    return (guess == rows.y_test).float().mean().item()


def balanced(model: nn.Module, rows: Rows) -> float:
    """Returns the mean of the classes' recalls, of a model with an output a class or one logit."""
    out = outputs_of(model, rows.x_test)
    guess = (out > 0).long() if out.dim() == rows.y_test.dim() else out.argmax(-1)
    return (
        torch.stack([(guess[rows.y_test == one] == one).float().mean() for one in rows.y_test.unique()]).mean().item()
    )


def explained(model: nn.Module, rows: Rows) -> float:
    """Returns the share of the targets' variance that is explained; -1 at least, NaN if it is NaN."""
    return share(outputs_of(model, rows.x_test), rows.y_test)


def share(guess: Tensor, truth: Tensor) -> float:
    """Returns the share of the truth's variance that the guess explains; -1 at least, NaN if it is NaN."""
    error = (guess.reshape(truth.shape) - truth).square().mean()
    return (1 - error / (truth - truth.mean(0)).square().mean()).clamp(min=-1).item()


def separated(score: Tensor, label: Tensor) -> float:
    """Returns how often a row of class 1 has a higher score than one of class 0."""
    rank = score.argsort().argsort().float()
    few, many = (label == 1).sum(), (label == 0).sum()
    return ((rank[label == 1].sum() - few * (few - 1) / 2) / (few * many)).item()
