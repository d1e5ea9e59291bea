"""Non-finite events: one record for each operator that produced NaN or infinities from finite inputs."""

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
        call: The operator; in a backward pass, the operator of the forward pass that is differentiated.
        kernel: The operator that ran.
        direction: The pass in which it ran.
        node: In a backward pass, the autograd node that ran it.
        origin: Where the values came from.
        source: What held them before the replay, if no operator of the replay produced them.
        inputs: Its inputs before it ran.
        outputs: Its outputs.
        samples: Truncated copies of inputs and outputs, by role.
        rows: The affected rows of the batch; None if they cannot be determined.
        running: In a forward pass, the calls of modules that were running, the innermost last.
        number: The number of operators that had run, including this one.
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
        """Whether these infinities are intended."""
        return self.origin == "placed"


def non_finite_rows(tensors: Iterable[torch.Tensor], batch: int | None) -> tuple[int, ...] | None:
    """Returns the non-finite rows of the first tensor that has any and whose first dimension is the batch, or None."""
    for tensor in tensors:
        if batch and tensor.ndim and tensor.shape[0] == batch and tensor.is_floating_point():
            rows = torch.isfinite(tensor).reshape(batch, -1).all(1).logical_not().nonzero()[:, 0].tolist()
            if rows:
                return tuple(rows)
    return None


def sample(tensor: torch.Tensor, rows: Sequence[int] | None) -> torch.Tensor:
    """Returns a copy on the host; of more than 65,536 values, as many from 8 rows, ``rows`` first."""
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
