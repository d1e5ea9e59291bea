"""Five bugs that end in NaN, each found by name: the module, the operator, the line, and what to do.

Run: ``python examples/find_the_nan.py``. Each bug breaks a small training, whose stability manager repeats the first
step that is not finite.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import stepscope
from stability import FirstNaNFinder, GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

CLASSES = 3


@dataclass
class Bug:
    """A training with a bug: its model, the loss of outputs and targets, and what is unusual about the training."""

    title: str
    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    learning_rate: float = 1e-2
    precision: torch.dtype | None = None
    max_norm: float = 1.0


class Length(nn.Module):
    """The lengths of mixed features: the slope of the root does not exist where one is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        """Returns lengths (n, 1) of features (n, 4)."""
        return self.mix(values).square().sum(1, keepdim=True).sqrt()


class Attention(nn.Module):
    """Attention over the non-zero features of each row: a row without any masks everything."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(4, 4)

    def forward(self, values: Tensor) -> Tensor:
        """Returns weighted features (n, 4)."""
        masked = self.scores(values).masked_fill(values == 0, -torch.inf)
        return values * masked.softmax(dim=1)


class Energy(nn.Module):
    """The sum of squared features, scaled up: too large for float16."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, values: Tensor) -> Tensor:
        """Returns products of all rows (n, n)."""
        features = 1000 * self.mix(values)
        return features @ features.T / 1e6


def log_of_the_probability(outputs: Tensor, targets: Tensor) -> Tensor:
    """A cross entropy by hand: a probability that is rounded to 0 has no logarithm."""
    probabilities = (1000 * outputs).softmax(dim=1)
    return -probabilities.gather(1, targets[:, None]).log().mean()


def bugs() -> list[Bug]:
    """Makes the five trainings."""
    torch.manual_seed(0)
    entropy = nn.functional.cross_entropy
    return [
        Bug("log(0) in a loss", nn.Sequential(nn.Linear(4, CLASSES)), log_of_the_probability),
        Bug("sqrt at 0 in backward", nn.Sequential(Length(), nn.Linear(1, CLASSES)), entropy),
        Bug("float16 overflow", nn.Sequential(Energy(), nn.Linear(8, CLASSES)), entropy, precision=torch.float16),
        Bug("attention mask of all -inf", nn.Sequential(Attention(), nn.Linear(4, CLASSES)), entropy),
        Bug(
            "exploding learning rate",
            nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)),
            lambda outputs, targets: (outputs - nn.functional.one_hot(targets, CLASSES)).square().mean(),
            learning_rate=1e4,
            max_norm=torch.inf,
        ),
    ]


def train(bug: Bug, run: stepscope.Run) -> str:
    """Trains until a step is not finite, and returns what was found."""
    optimizer = torch.optim.SGD(bug.model.parameters(), lr=bug.learning_rate)
    clipping = GradientClippingConfig(max_norm=bug.max_norm)
    data = torch.Generator().manual_seed(1)
    with FirstNaNFinder(bug.model) as finder:
        manager = NumericalStabilityManager(clipping, NaNHandlingConfig(), emitter=run, find_first_nan=finder)
        for step in range(20):
            inputs, targets = torch.randn(8, 4, generator=data), torch.randint(CLASSES, (8,), generator=data)
            if step == 3:
                inputs[5] = 0  # an empty row, as files have them

            def compute(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                with torch.autocast("cpu", dtype=bug.precision or torch.bfloat16, enabled=bug.precision is not None):
                    outputs = bug.model(inputs)
                return bug.loss(outputs.float(), targets)

            optimizer.zero_grad()
            loss = compute()
            loss.backward()
            finder.datapoints = range(8 * step, 8 * step + 8)
            result = manager.step(bug.model, loss, optimizer, replay=compute)
            if "first_nan" in result["nan_stats"]:
                return finder.found[-1].message
            optimizer.step()
    return "nothing was found"


def main(folder: str = "runs/find_the_nan") -> None:
    for bug in bugs():
        with stepscope.open_run(Path(folder) / bug.title.replace(" ", "_"), sinks=[]) as run:
            message = train(bug, run)
        print(f"{bug.title}: {message}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
