"""What several of these trainings share."""

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data


def from_pair(pair: samples.Pair) -> Data:
    """Returns both parts of a pair as data."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


class Spelling(nn.Module):
    """Letters, a recurrence over them, and a head for its last state."""

    def __init__(self, classes: int, *, width: int = 24) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 12)
        self.cells = nn.GRU(12, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the logits of the classes."""
        states, _ = self.cells(self.letters(rows))
        return self.head(states.mean(1))
