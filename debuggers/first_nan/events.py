"""Non-finite events: one record for each operator that produced the first NaN or infinities in its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tracker_adapters.values.tensors import plain_tensor

from debuggers.first_nan.module_calls import ModuleCall
from debuggers.first_nan.operands import Operand
from debuggers.first_nan.source_lines import Place
from debuggers.torch_import import torch

Direction: TypeAlias = Literal["forward", "backward"]
Origin: TypeAlias = Literal["operator", "placed", "parameter", "buffer", "input", "loss", "elsewhere"]
"""Where the first non-finite values came from: an operator; an operator that placed a given infinity; or, before the
replay, a parameter, a buffer, an argument of the model, the gradient of the loss, or a tensor of unknown origin."""

SAMPLE_ROWS = 8
SAMPLE_VALUES = 1 << 16


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Where an operator of a forward pass was called."""

    operator: str
    module: ModuleCall | None
    place: Place | None


@dataclass(slots=True)
class NonFiniteEvent:
    """An operator that produced non-finite values.

    Attributes:
        call: The operator; in a backward pass the one of the forward pass that is differentiated.
        kernel: The operator that ran.
        direction: In which pass.
        node: The autograd node that it belongs to, in a backward pass.
        origin: Where they came from.
        source: What held them before the replay, if no operator of the replay produced them.
        inputs: Its inputs before it ran.
        outputs: Its outputs.
        samples: Cut copies of inputs and outputs, by role.
        rows: The rows of the batch that are affected; None if they cannot be determined.
        running: The calls of modules that were running in a forward pass, the innermost last.
        number: How many operators had run, this one included.
    """

    call: OperatorCall
    kernel: str
    direction: Direction
    node: str | None
    origin: Origin
    source: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    samples: dict[str, torch.Tensor] = field(default_factory=dict)
    rows: tuple[int, ...] | None = None
    running: tuple[ModuleCall, ...] = ()
    number: int = 0

    @property
    def is_meant(self) -> bool:
        """Whether these infinities were put there on purpose."""
        return self.origin == "placed"


def non_finite_rows(tensors: Iterable[torch.Tensor], batch: int | None) -> tuple[int, ...] | None:
    """Returns the indices of the first dimension under which a tensor is not finite, or None where it is no batch's.

    Of several tensors the first counts whose first dimension has the size of the batch and that has such rows.
    """
    for tensor in tensors:
        if batch and tensor.ndim and tensor.shape[0] == batch and tensor.is_floating_point():
            rows = torch.isfinite(tensor).reshape(batch, -1).all(1).logical_not().nonzero()[:, 0].tolist()
            if rows:
                return tuple(rows)
    return None


def sample(tensor: torch.Tensor, rows: Sequence[int] | None) -> torch.Tensor:
    """Returns a copy on the host: of at most 8 rows, those that are named first, and 65,536 values."""
    values = tensor.detach()
    if values.ndim and values.numel() > SAMPLE_VALUES:
        named = [row for row in rows or () if row < values.shape[0]]
        others = (row for row in range(values.shape[0]) if row not in set(named))
        chosen = [*named, *(row for row, _ in zip(others, range(SAMPLE_ROWS), strict=False))][:SAMPLE_ROWS]
        values = values[torch.tensor(chosen, device=values.device)]
        if values.numel() > SAMPLE_VALUES:
            values = values.reshape(-1)[:SAMPLE_VALUES]
    copy: torch.Tensor = plain_tensor("tensor", values).to("cpu", copy=True)
    return copy
