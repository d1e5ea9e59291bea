"""The nodes of an autograd graph: their operators, shapes and operands, read without changing or keeping anything."""

import math
from collections.abc import Container
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import output_metadata, saved_value

_FURTHEST = 80
"""How many nodes may lie in a row that only pass on."""
PASSING = frozenset(
    [
        "Alias",
        "AsStrided",
        "Clone",
        "Copy",
        "Expand",
        "Flatten",
        "IndexSelect",
        "MaskedFill",
        "MaskedSelect",
        "NanToNum",
        "Permute",
        "Repeat",
        "Reshape",
        "ReshapeAlias",
        "Select",
        "Slice",
        "Split",
        "SplitWithSizes",
        "Squeeze",
        "T",
        "ToCopy",
        "Transpose",
        "Unbind",
        "Unsqueeze",
        "UnsafeView",
        "View",
        "ViewAsReal",
    ]
)
"""Operators that pass elements on, perhaps only some of them, in another shape or dtype."""
PICKING = frozenset(["Gather", "Index", "Take", "TakeAlongDim"])
"""Operators that pass on the elements that a tensor of indices names, such as the classes of targets."""

_PRODUCTS = frozenset(
    ["Addmm", "Mm", "Bmm", "Baddbmm", "Linear", "Convolution", "ScaledDotProductFlashAttentionForCpu"]
)
_MOST_FOR_PRODUCTS = 64


def operator(node: Any) -> str:
    """Returns a node's operator, such as ``MseLoss`` of ``MseLossBackward0``."""
    name: str = node.name()
    return name.rstrip("0123456789").removesuffix("Backward")


def operands(node: Any) -> list[Any]:
    """Returns the nodes of a node's operands; of those without a gradient there is none."""
    return [following for following, _ in node.next_functions if following is not None]


def is_leaf(node: Any) -> bool:
    """Whether a node stands for a tensor that no operator made, such as a parameter."""
    return hasattr(node, "variable")


def shape_of(node: Any) -> tuple[int, ...]:
    """Returns the shape of a node's first output; () where torch does not tell, and for nested tensors."""
    known = output_metadata(node)
    try:
        return tuple(known[0].shape) if known else ()
    except RuntimeError:  # a nested tensor has no shape
        return ()


def scale_tensor(node: Any) -> torch.Tensor | None:
    """Returns the 0-d tensor that a product has as its constant factor; None for another node."""
    if not type(node).__name__.startswith("MulBackward"):  # of every pass: the node's own name takes ten times as long
        return None
    constant = constant_operand(node)
    return constant if isinstance(constant, torch.Tensor) and not constant.ndim else None


def constant_operand(node: Any) -> Any:
    """Returns the operand without gradient of a product or quotient: a tensor or number; None if it was not saved.

    An operand that needs no gradient is saved for the gradient of the other one.
    """
    for name in ("other", "self"):
        value = saved_value(node, name)
        if value is not None:
            return value
    return None


def behind(node: Any, passed: Container[str] = PASSING) -> Any:
    """Returns the node behind those of some operators, by default those that only pass on."""
    for _ in range(_FURTHEST):
        if operator(node) not in passed or not operands(node):
            return node
        node = operands(node)[0]
    return node


def number_on_host(value: Any) -> float | None:
    """Returns a finite number, or that of a tensor of one element on the host; None for anything else."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1 or not value.is_cpu or value.is_complex():
            return None
        value = value.detach().item()
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def unexpanded_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Returns a tensor's shape before it was expanded, as far as its strides tell."""
    if tensor.layout is not torch.strided:
        return tuple(tensor.shape)
    sizes = [
        1 if stride == 0 and size > 1 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    while sizes and sizes[0] == 1 and tensor.shape[len(tensor.shape) - len(sizes)] > 1:
        sizes.pop(0)
    return tuple(sizes)


def dtypes_of_products(node: Any) -> frozenset[torch.dtype]:
    """Returns the dtypes of the results of matrix products and convolutions among the last 64 nodes of a graph."""
    waiting, seen, found = [node], {node}, set()
    while waiting and len(seen) < _MOST_FOR_PRODUCTS:
        node = waiting.pop(0)
        if operator(node) in _PRODUCTS and (known := output_metadata(node)):
            found.add(known[0].dtype)
        for inner in operands(node):
            if inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return frozenset(found)


def dimension_of(value: Any, dimensions: int) -> int | None:
    """A dimension counted from 0; torch may save a negative one as an unsigned number of 64 bits."""
    if not isinstance(value, int) or dimensions < 1:
        return None
    return (value - (1 << 64) if value >= 1 << 63 else value) % dimensions
