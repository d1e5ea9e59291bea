"""The registry of cases: a training, what is wrong with it, and to which part of the zoo it belongs."""

import importlib
import math
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

PARTS = ("tuned", "held_out")
"""The folders of the cases, and of folders in them: rules may be tuned on the first alone."""


class Session(Protocol):
    """What a training may tell while it is watched; every method may do nothing."""

    def step(self, loss: Any = None, *, inputs: Any = None, outputs: Any = None, targets: Any = None) -> Any:
        """Takes a step, before ``optimizer.step()``."""

    def validation(self, loss: Any, *, metrics: dict[str, float] | None = None) -> Any:
        """Takes the result of a validation."""

    def validating(self) -> AbstractContextManager[None]:
        """Begins a validation, in a ``with`` statement."""


Watch = Callable[..., Session]
"""``watch(model, optimizer, scaler=None)`` begins to watch, as ``stepscope.watch`` does."""
Train = Callable[..., float]
"""``train(watch, *, seed, sick)``, or ``train(watch, *, seed)`` if it is healthy: a training that returns its quality.

The quality is better if it is higher, and close to 1 if all is well: an accuracy or R², on held-out data.
"""


@dataclass(frozen=True)
class Case:
    """One training of the zoo.

    Attributes:
        name: ``family/function``.
        train: The training.
        cause: The code of what is wrong; empty for a healthy training, which has no twin.
        also: Codes that are true of it as well.
        part: One of ``PARTS``.
        half: The folder in its part; empty if it lies in none.
        margin: How much better the repaired twin is at least; of a healthy training, the quality that it reaches.
        slow: Whether it needs processes of its own, or measures time.
    """

    name: str
    train: Train
    cause: str
    also: tuple[str, ...]
    part: str
    half: str
    margin: float
    slow: bool = False

    @property
    def family(self) -> str:
        """The name of its module."""
        return self.name.partition("/")[0]

    @property
    def variants(self) -> tuple[str, ...]:
        """What can be run of it."""
        return ("sick", "repaired") if self.cause else ("healthy",)

    def run(self, watch: Watch, variant: str, seed: int) -> float:
        """Trains and returns the quality, -infinity for NaN; the seed decides data order, split and initialisation."""
        torch.manual_seed(seed)
        options = {"sick": variant == "sick"} if self.cause else {}
        quality = float(self.train(watch, seed=seed, **options))
        return -math.inf if math.isnan(quality) else quality


_cases: dict[tuple[str, str], Case] = {}


def sick(
    cause: str, *, also: tuple[str, ...] = (), margin: float = 0.03, slow: bool = False
) -> Callable[[Train], Train]:
    """Registers a training ``train(watch, *, seed, sick)`` under the code of what is wrong with it."""
    return lambda train: _register(train, cause, also, margin, slow)


def healthy(*, at_least: float) -> Callable[[Train], Train]:
    """Registers a sound training ``train(watch, *, seed)``, which reaches a quality."""
    return lambda train: _register(train, "", (), at_least, False)


def cases(part: str = "tuned") -> list[Case]:
    """Returns the cases of a part, in the order of their names."""
    package = importlib.import_module(f"{__package__}.{part}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return sorted((case for case in _cases.values() if case.part == part), key=lambda case: case.name)


def _register(train: Train, cause: str, also: tuple[str, ...], margin: float, slow: bool) -> Train:
    _, _, part, *folders, family = train.__module__.split(".")
    name = f"{family}/{train.__name__}"
    assert part in PARTS, f"{train.__module__} is in none of the folders {PARTS}"
    assert (part, name) not in _cases, f"{name} is twice in {part}"
    _cases[part, name] = Case(name, train, cause, also, part, "/".join(folders), margin, slow)
    return train
