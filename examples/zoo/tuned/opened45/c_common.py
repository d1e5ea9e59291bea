"""What the trainings of this half share: pairs of datasets as one, and small encoders."""

import torch
from torch import nn

from examples.zoo.datasets import Data
from examples.zoo.loops import predicted
from examples.zoo.samples import LETTERS, Pair, explained


def joined(pair: Pair) -> Data:
    """Returns a pair of datasets of two columns as one object."""
    (inputs, targets), (test_inputs, test_targets) = (part.tensors for part in pair)
    return Data(inputs, targets, test_inputs, test_targets)


def of_columns(model: nn.Module, data: Data) -> float:
    """Returns how much of the held-out targets' variance the model explains."""
    return explained(predicted(model, data.test_inputs), data.test_targets)


def even_accuracy(model: nn.Module, data: Data) -> float:
    """Returns the mean over both classes of the share that is found, of outputs (N, 1)."""
    guessed, true = predicted(model, data.test_inputs)[:, 0] > 0, data.test_targets[:, 0] > 0.5
    return ((guessed[true]).float().mean() + (~guessed[~true]).float().mean()).item() / 2


class Reader(nn.Module):
    """Reads a name's letters with a recurrence, and says of which script it is."""

    def __init__(self, size: int = 32, scripts: int = 8) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, 16, padding_idx=0)
        self.gru = nn.GRU(16, size, batch_first=True)
        self.head = nn.Linear(size, scripts)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.letters(codes))
        known = (codes > 0).unsqueeze(-1)
        return self.head((states * known).sum(1) / known.sum(1).clamp(min=1))
