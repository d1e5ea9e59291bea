"""The values whose gradients are checked: a few chosen elements of each stand for it."""

import random
from collections.abc import Callable
from typing import Any

from debuggers.host_arrays.readable import dense
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

CHOSEN_ELEMENTS = 8
WHOLE_OUTPUTS = 16
PROJECTIONS = 4
SHIFT = 1e-2


class CheckedValue:
    """A floating-point or complex tensor in float64, of which a few elements vary and the others stay.

    A sparse tensor varies in its entries, and a complex one in real and imaginary parts.
    """

    def __init__(self, name: str, tensor: torch.Tensor, *, elements: int | None, seed: int) -> None:
        """Takes a copy of the values.

        Args:
            name: What it is called.
            tensor: The values.
            elements: How many of them are chosen at random; None for all.
            seed: Which ones.
        """
        self.name = name
        self._rebuild, dense = _taken_apart(tensor.detach())
        self.base = torch.view_as_real(dense.to(torch.complex128)) if dense.is_complex() else dense.double()
        self._complex = dense.is_complex()
        self.base = self.base.clone(memory_format=torch.contiguous_format)
        count = self.base.numel()
        picked = random.Random(seed).sample(range(count), min(count, elements)) if elements else range(count)
        self.chosen = torch.tensor(list(picked), device=self.base.device, dtype=torch.long)

    def choose_at_most(self, elements: int) -> None:
        """Keeps the first of the chosen elements."""
        self.chosen = self.chosen[:elements]

    def shift(self, seed: int) -> None:
        """Moves all values by about 1 % of their mean size, away from ties and other kinks."""
        if not self.base.numel():
            return
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(self.base.shape, generator=generator, dtype=torch.float64, device="cpu").to(
            self.base.device
        )
        size = self.base.abs().mean()
        self.base += noise * SHIFT * torch.where(size > 0, size, torch.ones_like(size))

    def chosen_elements(self) -> torch.Tensor:
        """Returns the chosen elements as they are, (chosen,), to differentiate with respect to."""
        return self.base.flatten()[self.chosen].requires_grad_()

    def put(self, part: torch.Tensor) -> torch.Tensor:
        """Returns the whole tensor with other values for the chosen elements."""
        whole = self.base.flatten().index_copy(0, self.chosen, part).view(self.base.shape)
        values = _DenseGradient.apply(whole)  # type: ignore[no-untyped-call]
        return self._rebuild(torch.view_as_complex(values) if self._complex else values)

    def index_of(self, position: int) -> list[int]:
        """Returns where a chosen element stands in the tensor; of a sparse one, in its entries."""
        flat = int(self.chosen[position])
        return [int(index) for index in torch.unravel_index(torch.tensor(flat, device="cpu"), self.base.shape)]


def observed(result: Any, weights: dict[int, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Returns the real numbers of each floating-point or complex tensor in a result, (outputs,) in float64.

    Of more than 16 there are four sums with weights drawn from a normal distribution, the same at each call: an error
    in any element's gradient shows in them.

    Args:
        result: Tensors in any structure.
        weights: Keeps the weights by their number from one call to the next; give an empty one at first.
    """
    numbers = (tensor for tensor in tensors_in(result) if tensor.is_floating_point() or tensor.is_complex())
    return tuple(_numbers(tensor, weights) for tensor in numbers)


def _numbers(tensor: torch.Tensor, weights: dict[int, torch.Tensor]) -> torch.Tensor:
    values = dense(tensor)
    flat = (torch.view_as_real(values) if values.is_complex() else values).flatten().double()
    if flat.numel() <= WHOLE_OUTPUTS:
        return flat
    if flat.numel() not in weights:
        generator = torch.Generator().manual_seed(flat.numel())
        drawn = torch.randn(PROJECTIONS, flat.numel(), generator=generator, dtype=torch.float64, device="cpu")
        weights[flat.numel()] = drawn.to(flat.device)
    return weights[flat.numel()] @ flat


class _DenseGradient(torch.autograd.Function):
    """Passes values on, and makes a sparse gradient dense: what is compared is its numbers."""

    @staticmethod
    def forward(values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is needed in the backward pass."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return dense(gradient)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent.clone()


def _taken_apart(tensor: torch.Tensor) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """The dense values of a tensor, and what makes a tensor of its layout of such values."""
    if tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        indices, size = whole.indices(), whole.shape
        return lambda values: torch.sparse_coo_tensor(indices, values, size, is_coalesced=True), whole.values()
    if tensor.layout is torch.sparse_csr:
        rows, columns, shape = tensor.crow_indices(), tensor.col_indices(), tensor.shape
        return lambda values: torch.sparse_csr_tensor(rows, columns, values, shape), tensor.values()
    return lambda values: values, tensor
