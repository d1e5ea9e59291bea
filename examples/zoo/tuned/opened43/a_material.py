"""What the cases share: pairs as ``Data``, in units that suit a network, and two judges."""

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data

LETTERS = 64


def joined(pair: samples.Pair) -> Data:
    """Returns a pair of datasets with two columns as ``Data``."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def spelled(seed: int) -> Data:
    """Names of letters as codes (N, 24), and their scripts, of eight."""
    return joined(samples.names(seed))


def digit_images(seed: int) -> Data:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1."""
    return joined(samples.numerals(seed))


def flat_digits(seed: int) -> Data:
    """Digits (N, 64) with mean 0 and deviation 1."""
    data = digit_images(seed)
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


def file_lines(seed: int) -> Data:
    """Standardised counts (N, 96) of characters, and of which of six files they are."""
    train, test = samples.lines(seed)
    one, other = train.tensors[0].log1p(), test.tensors[0].log1p()
    std, mean = torch.std_mean(one, 0)
    one, other = ((part - mean) / (std + 0.1) for part in (one, other))
    return Data(one, train.tensors[1], other, test.tensors[1])


def worst_measurements(seed: int) -> Data:
    """Ten means of a tumour, and its ten worst values, both standardised."""
    return joined(samples.standardised(samples.tumours(seed), 0, 1))


def wines_and_proline(seed: int) -> Data:
    """Twelve measurements of a wine and its proline (N, 1), both standardised."""
    return joined(samples.standardised(samples.proline(seed), 0, 1))


def lower_halves(seed: int) -> Data:
    """Upper and lower halves of digits (N, 32), from 0 to 1."""
    return joined(samples.halves(seed))


def score(model: nn.Module, data: Data) -> float:
    """Returns R² of all outputs on held-out data, -1 at least."""
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_targets)


def balanced(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean of the classes' shares that are recognised."""
    guessed = outputs.argmax(-1)
    return sum((guessed[labels == label] == label).float().mean().item() for label in labels.unique()) / len(
        labels.unique()
    )
