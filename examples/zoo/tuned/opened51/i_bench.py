"""What several cases share: data in the form of ``Data``, small bodies, and measures of quality."""

import itertools

import numpy as np
import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data


def as_data(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one record."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def scripts(seed: int) -> Data:
    """Names of letters (N, 24) as codes, and their script."""
    return as_data(samples.names(seed))


def code_lines(seed: int) -> Data:
    """Counts of characters (N, 96) in units of their deviation, and their file."""
    return as_data(samples.standardised(samples.lines(seed), 0))


def brightness(seed: int, *, past: int = 20, ahead: int = 4, count: int = 1200) -> Data:
    """Brightness (N, past, 1) along lines of photographs, and how it goes on (N, ahead), standardised."""
    random = np.random.default_rng(seed)
    pictures = [picture.mean(2) for picture in samples._photographs()]
    rows = []
    for _ in range(count):
        line = pictures[random.integers(2)]
        line = line[random.integers(len(line))]
        start = random.integers((len(line) - 2 * (past + ahead)) // 2)
        rows.append(line[start : start + 2 * (past + ahead) : 2])
    values = torch.from_numpy(np.stack(rows)).float()
    values = (values - values[: count // 2].mean()) / values[: count // 2].std()
    return as_data(samples.split(seed, values[:, :past, None], values[:, past:]))


def ratings(seed: int) -> tuple[torch.Tensor, Data]:
    """Pixels of 300 digits as ratings: pairs (N, 2) of a picture and a place, and the standardised ink there (N,)."""
    digits = samples._table("load_digits")[0][:300]
    places = np.flatnonzero(digits.std(0) > 2)
    ink = torch.from_numpy(digits[:, places]).float()
    ink = (ink - ink.mean()) / ink.std()
    pairs = torch.cartesian_prod(torch.arange(ink.shape[0]), torch.arange(ink.shape[1]))
    return torch.tensor(ink.shape), as_data(samples.split(seed, pairs, ink.flatten()))


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out variance that the model explains."""
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_targets)


def balanced(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean over both classes of the share that is found."""
    guessed = outputs.squeeze(-1) > 0
    return ((guessed[labels > 0.5]).float().mean() + (~guessed[labels < 0.5]).float().mean()).item() / 2


class Reader(nn.Module):
    """Letters, a recurrence, and a head at the last place."""

    def __init__(self, classes: int = 8, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.letters(codes))[0].mean(1))


def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these widths with activations between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])
