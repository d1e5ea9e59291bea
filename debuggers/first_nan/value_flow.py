"""How non-finite values propagate through one operator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from debuggers.first_nan.events import Origin
from debuggers.first_nan.operands import NonFiniteKinds, non_finite_kinds, plain
from debuggers.first_nan.operator_kinds import OperatorKind
from debuggers.first_nan.source_lines import Place
from debuggers.torch_import import torch

Argument = tuple[str, torch.Tensor | float]


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """An operator that has run.

    Attributes:
        kind: Its properties.
        arguments: Its tensors and numbers by argument name, as before the call.
        outputs: Its non-finite results.
        place: The line of user code that called it.
    """

    kind: OperatorKind
    arguments: list[Argument]
    outputs: list[torch.Tensor]
    place: Place | None

    def values(self) -> list[torch.Tensor]:
        """Returns the tensors that it reads and that can hold NaN, as strided ones."""
        unread = self.kind.written if self.kind.overwrites else ()
        found = (plain(item) for role, item in self.arguments if isinstance(item, torch.Tensor) and role not in unread)
        return [tensor for tensor in found if tensor is not None]

    def is_row_by_row(self, batch: int | None) -> bool:
        """Whether the rows of its outputs are datapoints, if there are as many.

        The gradient of a weight may have as many rows as the batch by chance, but is a sum over the batch.
        """
        values = self.values()
        if self.kind.keeps_rows or not values:
            return True
        first = values[0].shape
        return first[:1] == self.outputs[0].shape[:1] and not (len(first) == 2 and first[1] == batch)

    def reached_by(self, tensor: torch.Tensor) -> bool:
        """Whether non-finite values of an argument may have reached the outputs.

        In a pointwise operator, they have if the output is not finite at the same position.
        """
        if not self._is_pointwise_in(tensor):
            return True
        return bool((~torch.isfinite(tensor) & ~torch.isfinite(self.outputs[0])).any())

    def makes_some(self) -> bool:
        """Whether a pointwise operator returned a non-finite value at a position where all arguments are finite."""
        arguments = self.values()
        if not all(self._is_pointwise_in(tensor) for tensor in arguments):
            return False
        fresh = ~torch.isfinite(self.outputs[0])
        for tensor in arguments:
            fresh &= torch.isfinite(tensor)
        return bool(fresh.any())

    def _is_pointwise_in(self, tensor: torch.Tensor) -> bool:
        if not self.kind.pointwise or len(self.outputs) != 1 or tensor.device != self.outputs[0].device:
            return False
        shape = self.outputs[0].shape
        if tensor.ndim > len(shape):
            return False
        return all(size in (1, wanted) for size, wanted in zip(reversed(tensor.shape), reversed(shape), strict=False))


def combined_kinds(tensors: Iterable[torch.Tensor]) -> NonFiniteKinds:
    """Returns which kinds of non-finite values any of these holds."""
    return NonFiniteKinds(*(any(column) for column in zip(*map(non_finite_kinds, tensors), strict=True)))


def is_written(kind: OperatorKind, role: str) -> bool:
    """Whether an operator changes the argument of this name."""
    return bool(kind.written) and role.partition("[")[0] in kind.written


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether its values fill its storage."""
    return tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()


def is_meant(tensor: torch.Tensor, origin: Origin, kind: OperatorKind) -> bool:
    """Whether the infinities of a tensor from outside of the replay are intended.

    They are if minus infinity is the only non-finite value, as in masks and logarithms of probabilities. An argument
    of the model may also hold data: there, all finite values must be zero, and the operator must not multiply. A
    buffer, or a tensor of unknown origin, may also be filled with infinity as a bound.

    Args:
        tensor: Holds non-finite values.
        origin: What the tensor is.
        kind: The operator that reads it.
    """
    if origin not in ("input", "buffer", "elsewhere"):
        return False
    signs, finite = non_finite_kinds(tensor), tensor[torch.isfinite(tensor)]
    if origin != "input":
        return not signs.nan and (not signs.positive_inf or not finite.numel())
    return signs == NonFiniteKinds(nan=False, positive_inf=False, negative_inf=True) and not (
        kind.multiplies or bool((finite != 0).any())
    )


def different(tensors: Iterable[torch.Tensor], others: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the tensors that are not among the others."""
    known = {id(tensor) for tensor in others}
    return [tensor for tensor in tensors if id(tensor) not in known]
