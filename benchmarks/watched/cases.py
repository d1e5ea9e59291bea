"""The cases: which model is trained on which data, for how many pairs, and which sides watch it by default."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from watched.data import Batch, digit_batches, image_batches, text_batches
from watched.models import BATCH, LENGTH, VOCABULARY, ManyTensors, ResNet, Transformer

BATCHES = 32
"""Different batches of a case; training goes through them again and again."""

SHORT = ("floor", "clip", "gradients", "weights", "governor", "add_histogram", "wandb_gradients")
SCALING_TENSORS = (250, 500, 1000, 2000)
SCALING_WIDTHS = (256, 512, 1024, 2048)
SCALING_LAYERS = 8


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """For the large model, where AdamW's step would hide what is compared."""
    return torch.optim.SGD(model.parameters(), lr=1e-4)


@dataclass(frozen=True)
class Case:
    """What is trained.

    Attributes:
        build: Makes the model.
        batches: Makes the data.
        warmup: Pairs that do not count, before the first unwatched pairs that do and before the watched ones.
        pairs: Pairs that count, by default.
        seconds: By default no pair begins later than this.
        sides: The sides by default; None for all.
        optimizer: Makes the optimizer of a model.
    """

    build: Callable[[], nn.Module]
    batches: Callable[[], list[Batch]]
    warmup: int = 10
    pairs: int = 60
    seconds: float = 10.0
    sides: tuple[str, ...] | None = None
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = adamw


def cases(*, tiny: bool) -> dict[str, Case]:
    """Returns the cases by name; the tiny ones are for trying the command, and their figures mean nothing."""
    return TINY if tiny else FULL


def _text(vocabulary: int, batch: int, length: int) -> Callable[[], list[Batch]]:
    return lambda: text_batches(BATCHES, vocabulary, batch, length)


def _chain(layers: int, width: int, sides: tuple[str, ...], *, pairs: int = 60, seconds: float = 4.0) -> Case:
    return Case(
        build=lambda: ManyTensors(layers, width),
        batches=lambda: digit_batches(BATCHES, 8, width),
        warmup=5,
        pairs=pairs,
        seconds=seconds,
        sides=sides,
    )


FULL = {
    "transformer": Case(Transformer, _text(VOCABULARY, BATCH, LENGTH)),
    "resnet": Case(
        ResNet,
        lambda: image_batches(BATCHES, 8, 64),
        warmup=3,
        sides=(*SHORT, "activations", "naive_activations"),
    ),
    "many": _chain(1000, 16, (*SHORT, "naive_gradients"), seconds=8.0),
    "large": Case(
        lambda: Transformer(vocabulary=50_000, width=768, blocks=6, heads=12),
        _text(50_000, 1, 32),
        warmup=2,
        seconds=15.0,
        sides=SHORT,
        optimizer=sgd,
    ),
    **{f"tensors-{number}": _chain(number // 2, 16, ("gradients",)) for number in SCALING_TENSORS},
    **{f"width-{width}": _chain(SCALING_LAYERS, width, ("gradients",)) for width in SCALING_WIDTHS},
}
GROUPS = {
    **{name: [name] for name in ("transformer", "resnet", "many", "large")},
    "scaling": [name for name in FULL if name.startswith(("tensors-", "width-"))],
    "all": list(FULL),
}
TINY = {
    "transformer": Case(lambda: Transformer(50, 16, 1, 2), _text(50, 2, 8), warmup=1),
    "resnet": Case(
        lambda: ResNet((1, 1, 1, 1), 4, 4), lambda: image_batches(BATCHES, 2, 32), warmup=1, sides=("gradients",)
    ),
    "many": _chain(10, 16, ("floor", "gradients")),
    "large": Case(
        lambda: Transformer(500, 32, 1, 2), _text(500, 1, 16), warmup=1, sides=("floor", "gradients"), optimizer=sgd
    ),
    **{f"tensors-{number}": _chain(number // 100, 16, ("gradients",)) for number in SCALING_TENSORS},
    **{f"width-{width}": _chain(2, width // 16, ("gradients",)) for width in SCALING_WIDTHS},
}
