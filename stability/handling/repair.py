"""Ways to make gradients finite in place; none of them waits for the device."""

from collections.abc import Iterable, Iterator

from debuggers.torch_import import torch
from stability.gradients.measure import Gradients


@torch.no_grad()
def replace_non_finite(
    gradients: Gradients, faulty: Iterable[str], *, nan_value: float = 0.0, inf_value: float | None = None
) -> None:
    """Puts finite numbers in the place of NaN and infinities; the other elements stay to the bit.

    Real and imaginary parts are elements of their own. Of a sharded gradient the part on this rank is repaired alone.

    Args:
        gradients: All gradients.
        faulty: The names of those that are not finite.
        nan_value: Goes in the place of NaN.
        inf_value: Goes, with its sign, in the place of infinities; None for the largest finite magnitude of the same
            gradient, zero where none is finite. Beyond the range of the gradient's dtype both are its largest number.
    """
    for values in _values(gradients, faulty):
        if inf_value is None:
            largest = values.abs().where(values.isfinite(), 0.0).amax()
        else:
            largest = values.new_full((), _within(inf_value, values))
        repaired = values.where(~values.isinf(), largest.copysign(values))
        values.copy_(repaired.where(~values.isnan(), _within(nan_value, values)))
    gradients.store()


def _within(value: float, values: torch.Tensor) -> float:
    largest = torch.finfo(values.dtype).max
    return min(max(value, -largest), largest)


@torch.no_grad()
def zero_gradients(gradients: Gradients, faulty: Iterable[str]) -> None:
    """Sets each of the faulty gradients to zero as a whole."""
    for values in _values(gradients, faulty):
        values.zero_()
    gradients.store()


@torch.no_grad()
def scale_gradients(gradients: Gradients, faulty: Iterable[str], *, factor: float) -> None:
    """Sets NaN and infinities to zero, and multiplies all gradients by a factor."""
    replace_non_finite(gradients, faulty, inf_value=0.0)
    for tensor in gradients.tensors:
        tensor.mul_(factor)
    gradients.store()


def _values(gradients: Gradients, chosen: Iterable[str]) -> Iterator[torch.Tensor]:
    tensors = dict(zip(gradients.names, gradients.tensors, strict=True))
    for name in chosen:
        tensor = tensors[name]
        if tensor.numel():
            yield torch.view_as_real(tensor) if tensor.is_complex() else tensor
