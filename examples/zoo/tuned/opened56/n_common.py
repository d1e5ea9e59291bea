"""What several of the cases share: pairs as data, and how good an output is."""

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def as_data(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as data."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def standard(pair: samples.Pair, *columns: int) -> Data:
    """Returns a pair as data, with those columns standardised."""
    return as_data(samples.standardised(pair, *columns))


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def balanced_accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean of both classes' recalls; a logit above 0 says the second class."""
    right = (logits.view(-1) > 0) == (labels.view(-1) > 0.5)
    positive = labels.view(-1) > 0.5
    return ((right[positive].float().mean() + right[~positive].float().mean()) / 2).item()
