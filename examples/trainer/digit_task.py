"""What the configurations train: a small network that tells scikit-learn's 1,797 scanned digits apart."""

from collections import OrderedDict
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

from debuggers.base_debugger import BaseDebugger

ROWS = {"train": range(1200), "val": range(1200, 1500), "test": range(1500, 1797)}


class DigitDataset(Dataset):
    """Scans of 8 by 8 pixels from 0 to 1; ``meta_info.idx`` is a scan's row in scikit-learn's data."""

    def __init__(self, split: str) -> None:
        digits = load_digits()
        self.rows = ROWS[split]
        self.images = torch.from_numpy(digits.images).float()[:, None] / 16
        self.labels = torch.from_numpy(digits.target)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        return {"inputs": self.images[row], "labels": self.labels[row], "meta_info": {"idx": row}}


class DigitNetwork(nn.Module):
    """Two convolutions and a linear head: (B, 1, 8, 8) to (B, 10)."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        layers = {
            "conv1": nn.Conv2d(1, channels, 3, padding=1),
            "act1": nn.ReLU(),
            "conv2": nn.Conv2d(channels, channels, 3, padding=1),
            "act2": nn.ReLU(),
            "pool": nn.MaxPool2d(2),
        }
        self.backbone = nn.Sequential(OrderedDict(layers))
        self.head = nn.Linear(channels * 16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns unnormalised class scores."""
        return self.head(self.backbone(images).flatten(1))


class ClassificationScores:
    """Gives each datapoint of a batch its ``loss``, the cross entropy, and whether it is ``correct``: (B,) each."""

    def __call__(self, datapoint: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Needs ``outputs`` (B, classes) and ``labels`` (B,)."""
        outputs, labels = datapoint["outputs"], datapoint["labels"]
        loss = nn.functional.cross_entropy(outputs, labels, reduction="none")
        return {"loss": loss, "correct": outputs.argmax(1) == labels}


class ConfidenceDebugger(BaseDebugger):
    """A debugger of one's own: the probability of the class that each datapoint was given."""

    draws_random_numbers = False

    def __call__(self, datapoint: dict[str, Any], model: nn.Module) -> dict[str, torch.Tensor]:
        """Returns ``confidence``, (B,)."""
        return {"confidence": datapoint["outputs"].softmax(1).amax(1)}
