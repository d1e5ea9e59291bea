"""A small network with random weights and the digits of scikit-learn, for tests that train."""

import torch
from digits_data import digits_data
from torch import nn


class DigitNetwork(nn.Module):
    """Tells digits apart: two convolutions, an in-place activation, dropout and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential()
        self.backbone.add_module("conv1", nn.Conv2d(1, 4, 3, padding=1))
        self.backbone.add_module("norm1", nn.BatchNorm2d(4))
        self.backbone.add_module("act1", nn.ReLU(inplace=True))
        self.backbone.add_module("conv2", nn.Conv2d(4, 8, 3, stride=2, padding=1))
        self.backbone.add_module("act2", nn.ReLU(inplace=True))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(8 * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 1, 8, 8) to (B, 10)."""
        return self.head(self.dropout(self.backbone(images).flatten(1)))


def digit_network(seed: int = 0) -> DigitNetwork:
    """Returns a network whose weights depend on the seed only; the generators stay as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return DigitNetwork()


def digits(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images (count, 1, 8, 8), float32 from 0 to 1, and labels (count,)."""
    pictures, labels = (torch.tensor(values[:count]) for values in digits_data())
    return pictures.float().unflatten(1, (1, 8, 8)) / 16, labels
