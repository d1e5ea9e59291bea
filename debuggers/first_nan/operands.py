"""Describes the inputs and outputs of an operator: shapes, dtypes, ranges and counts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import sparse_values

_COUNTED = ("nan", "positive_inf", "negative_inf", "zeros", "negatives")


class NonFiniteKinds(NamedTuple):
    """Which kinds of non-finite values a tensor holds."""

    nan: bool
    positive_inf: bool
    negative_inf: bool


@dataclass(frozen=True, slots=True)
class Operand:
    """An input or output of an operator.

    Attributes:
        role: The name of the argument, such as ``self`` or ``mat2``, or ``output``.
        name: The parameter, buffer or argument of the model that it is; else empty.
        dtype: Such as ``float32``; ``number`` for a plain number.
        shape: Its shape.
        minimum: The smallest finite value; NaN if there is none. Complex values count as pairs of real ones.
        maximum: The largest finite value, or the plain number itself.
        nan: Number of NaN values.
        positive_inf: Number of infinities.
        negative_inf: Number of minus infinities.
        zeros: Number of zeros.
        negatives: Number of finite values below zero.
    """

    role: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    minimum: float
    maximum: float
    nan: int
    positive_inf: int
    negative_inf: int
    zeros: int
    negatives: int

    @property
    def magnitude(self) -> float:
        """The largest magnitude of its finite values; 0 if there is none."""
        return 0.0 if math.isnan(self.minimum) else max(-self.minimum, self.maximum)

    @property
    def non_finite(self) -> int:
        """Number of values that are NaN or infinite."""
        return self.nan + self.positive_inf + self.negative_inf

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values."""
        return {**asdict(self), "shape": list(self.shape)}

    def __str__(self) -> str:
        title = f"{self.role} ({self.name})" if self.name else self.role
        if self.dtype == "number":
            return f"{title} = {self.maximum:g}"
        counts = (getattr(self, name) for name in _COUNTED)
        held = [f"{count} {name.replace('_', ' ')}" for name, count in zip(_COUNTED, counts, strict=True) if count]
        size = math.prod(self.shape)
        values = "nothing finite" if math.isnan(self.minimum) else f"{self.minimum:.4g} to {self.maximum:.4g}"
        values = values if size else "no values"
        return f"{title} {self.dtype} {self.shape}: {', '.join([values, *held])}{f' of {size}' if held else ''}"


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of an operator's arguments or results, also in nested lists and tuples."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for item in values:
            yield from tensors_in(item)


def plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns real or complex floating-point values as a strided tensor; None if there are none to read."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.device.type == "meta" or tensor.is_nested:
        return None
    if tensor.layout == torch.sparse_coo:
        return sparse_values(tensor)
    return tensor if tensor.layout == torch.strided else None


def holds_non_finite(tensor: torch.Tensor) -> bool:
    """Whether any value is NaN or infinite; reads a finite tensor once."""
    if not tensor.numel():
        return False
    values = tensor.float() if tensor.element_size() == 1 else tensor
    total = values.sum(dtype=torch.float32) if values.element_size() == 2 else values.sum()
    # The sum of finite values may overflow.
    return not bool(torch.isfinite(total)) and not bool(torch.isfinite(values).all())


def holds_more_than_minus_infinity(tensor: torch.Tensor) -> bool:
    """Whether any value is NaN or infinity; minus infinity is ignored, because masks contain it."""
    values = plain(tensor)
    if values is None or not holds_non_finite(values):
        return False
    signs = non_finite_kinds(values)
    return signs.nan or signs.positive_inf


def non_finite_kinds(tensor: torch.Tensor) -> NonFiniteKinds:
    """Returns which kinds of non-finite values it holds."""
    values = _real(tensor)
    found = torch.stack([values.isnan().any(), torch.isposinf(values).any(), torch.isneginf(values).any()])
    return NonFiniteKinds(*found.tolist())


def describe(role: str, name: str, tensor: torch.Tensor) -> Operand:
    """Describes a tensor; waits for its device."""
    values = _real(tensor) if tensor.is_complex() or tensor.is_floating_point() else tensor.double()
    finite = values[torch.isfinite(values)]
    least, most = (math.nan, math.nan) if not finite.numel() else torch.stack(torch.aminmax(finite)).tolist()
    counts = torch.stack(
        [
            values.isnan().sum(),
            torch.isposinf(values).sum(),
            torch.isneginf(values).sum(),
            (values == 0).sum(),
            (finite < 0).sum(),
        ]
    ).tolist()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Operand(role, name, dtype, tuple(tensor.shape), least, most, *counts)


def describe_number(role: str, value: float) -> Operand:
    """Describes a plain number among the arguments."""
    number, finite = float(value), math.isfinite(value)
    return Operand(
        role,
        "",
        "number",
        (),
        number if finite else math.nan,
        number,
        int(math.isnan(number)),
        int(number == math.inf),
        int(number == -math.inf),
        int(number == 0),
        int(finite and number < 0),
    )


def arguments_by_role(
    roles: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, torch.Tensor | float]]:
    """Returns the tensors and numbers among an operator's arguments with the names of the arguments."""
    found: list[tuple[str, torch.Tensor | float]] = []
    for role, value in [*zip(roles, args, strict=False), *kwargs.items()]:
        tensors = list(tensors_in(value))
        if isinstance(value, float):
            found.append((role, value))
        elif len(tensors) == 1:
            found.append((role, tensors[0]))
        else:
            found += [(f"{role}[{index}]", tensor) for index, tensor in enumerate(tensors)]
    return found


def _real(tensor: torch.Tensor) -> torch.Tensor:
    values = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return values.float() if values.element_size() < 4 else values
