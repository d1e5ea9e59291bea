"""Small networks of four kinds, each with a spot that changes what it does while a switch is on."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]


class Switch:
    """Whether the fault shows."""

    on = False


switch = Switch()


@dataclass
class Batch:
    """Inputs and targets."""

    inputs: Tensor
    targets: Tensor


class Spot(nn.Module):
    """Applies a function while the switch is on, and else passes values on."""

    def __init__(self, function: Function | None = None) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: Tensor) -> Tensor:
        return values if self.function is None or not switch.on else self.function(values)


class Encoder(nn.Module):
    """A transformer layer with a spot behind it."""

    def __init__(self, function: Function | None) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.spot = Spot(function)
        self.embed = nn.Linear(1, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, values: Tensor) -> Tensor:
        """Returns logits (n, 4)."""
        return self.head(self.spot(self.layer(self.embed(values[..., None]))).mean(1))


class Recurrent(nn.Module):
    """A gated recurrent unit with a spot behind it."""

    def __init__(self, function: Function | None) -> None:
        super().__init__()
        self.unit = nn.GRU(1, 8, batch_first=True)
        self.spot = Spot(function)
        self.head = nn.Linear(8, 4)

    def forward(self, values: Tensor) -> Tensor:
        """Returns logits (n, 4)."""
        return self.head(self.spot(self.unit(values[..., None])[0][:, -1]))


@dataclass(frozen=True)
class Network:
    """Makes networks of a kind.

    Attributes:
        make: Takes what the spot does.
        spot: The spot's name.
    """

    make: Callable[[Function | None], nn.Module]
    spot: str

    def __call__(self, function: Function | None) -> nn.Module:
        """Returns a network for inputs (n, 4)."""
        return self.make(function)


mlp = Network(lambda f: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), Spot(f), nn.Dropout(0.1), nn.Linear(8, 4)), "2")
cnn = Network(
    lambda f: nn.Sequential(
        nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), Spot(f), nn.Flatten(), nn.Linear(16, 4)
    ),
    "3",
)
encoder = Network(Encoder, "spot")
gru = Network(Recurrent, "spot")


def batch_for(model: nn.Module, rows: int = 8) -> Batch:
    """Returns a batch that a network takes."""
    inputs = torch.randn(rows, 4)
    first = next(iter(model.children()))
    return Batch(inputs[:, None] if isinstance(first, nn.Conv1d) else inputs, torch.randint(4, (rows,)))
