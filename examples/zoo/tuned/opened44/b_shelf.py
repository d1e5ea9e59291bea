"""What several of the cases share: data in other forms, and measures of quality."""

import torch
from torch import nn

from examples.zoo import datasets, samples
from examples.zoo.datasets import Data


def paired(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def scripts(seed: int, *, each: int = 110) -> Data:
    """Names of letters as codes (N, 24), of 40 and padded with 0, and which of eight scripts they are of."""
    return paired(samples.names(seed, each=each))


def figures(seed: int) -> Data:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1."""
    return paired(samples.numerals(seed))


def flat_figures(seed: int) -> Data:
    """Digits (N, 64) with mean 0 and deviation 1."""
    data = figures(seed)
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


def sources(seed: int) -> Data:
    """Logarithms of counts of 96 characters in lines of Python, and of which of six files they are."""
    data = paired(samples.lines(seed))
    return Data(data.inputs.log1p(), data.targets, data.test_inputs.log1p(), data.test_targets)


def lower_halves(seed: int) -> Data:
    """Upper halves of digits, and lower ones, both (N, 32) and centred."""
    data = paired(samples.halves(seed))
    mean, lower = data.inputs.mean(), data.targets.mean()
    return Data(data.inputs - mean, data.targets - lower, data.test_inputs - mean, data.test_targets - lower)


def worst_sizes(seed: int, *, raw: bool = False) -> Data:
    """Ten mean measurements of tumours, raw or not, and the ten worst ones, standardised."""
    pair = samples.tumours(seed)
    return paired(samples.standardised(pair, 1) if raw else samples.standardised(pair, 0, 1))


def hits(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of outputs, along the last dimension, that are largest at the target."""
    return (outputs.argmax(-1) == targets).float().mean().item()


def balanced(guesses: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the mean of the classes' recalls."""
    recalls = [(guesses[targets == label] == label).float().mean() for label in targets.unique()]
    return torch.stack(recalls).mean().item()


class LetterGru(nn.Module):
    """A recurrent classifier of names."""

    def __init__(self, width: int = 48, classes: int = 8) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
        self.memory = nn.GRU(16, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.memory(self.letters(codes))
        return self.head(states.max(1).values)


class LineWriter(nn.Module):
    """Predicts each next character of a text from those before."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 32)
        self.memory = nn.GRU(32, width, batch_first=True)
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.memory(self.letters(codes))[0])


def small_convolutions(*, width: int = 12, classes: int = 10) -> nn.Sequential:
    """Two convolutions and a mean over positions, for digits."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * width, classes),
    )  # fmt: skip
