"""Static properties of operators: what they write to, and whether they insert intended infinities."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.dispatch import operator_names, schema_of


def words(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


_PLACING = words(
    "constant_pad_nd fill fill_ full full_like index_fill index_fill_ masked_fill masked_fill_ masked_scatter "
    "new_full put scalar_tensor scatter scatter_ select_scatter"
)
_ALLOCATING = words(
    "_efficientzerotensor empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ set_"
)
_ABSORBING = words(
    "_log_softmax _masked_softmax _safe_softmax _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable _softmax "
    "logaddexp logaddexp2 logcumsumexp logsumexp"
)
_OVERWRITING = words(
    "bernoulli_ cauchy_ copy_ exponential_ fill_ geometric_ log_normal_ normal_ random_ uniform_ zero_"
)
_ROW_BY_ROW = words(
    "cat native_layer_norm select_backward slice_backward slice_scatter _softmax _softmax_backward_data"
)
_MULTIPLYING = words(
    "_convolution addbmm addmm addmv baddbmm bmm convolution div dot embedding_bag linear lstm matmul "
    "mkldnn_rnn_layer mm mul mul_ mv native_batch_norm native_group_norm native_layer_norm pow"
)
_COPYING = frozenset(["_to_copy", "clone", "lift_fresh_copy"])


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """The static properties of an operator.

    Attributes:
        name: Such as ``aten::log``.
        roles: The names of its arguments, in order.
        written: The names of the arguments that it changes.
        overwrites: It does not read the arguments that it changes.
        is_view: Its outputs are views of its inputs.
        allocates: Its outputs are uninitialised memory.
        places: It inserts a given value into tensors; an infinity inserted so is intended.
        absorbs: Minus infinity is a valid input, which represents probability zero.
        multiplies: Its output contains products, in which infinity times 0 is NaN.
        copies: Its output has the values of its input, possibly in another dtype or on another device.
        keeps_rows: Each row of its output depends on the same rows of its inputs only.
        pointwise: Each value of its output depends on the values at the same position of its broadcast inputs.
    """

    name: str
    roles: tuple[str, ...]
    written: tuple[str, ...]
    overwrites: bool
    is_view: bool
    allocates: bool
    places: bool
    absorbs: bool
    multiplies: bool
    copies: bool
    keeps_rows: bool
    pointwise: bool


@cache
def kind_of(operator: Any) -> OperatorKind:
    """Returns the properties of an operator as a dispatch mode gets it: an overload or a higher-order operator."""
    schema = schema_of(operator)
    if schema is None:
        return OperatorKind(str(operator), (), (), *([False] * 9))
    base = schema.name.partition("::")[2]
    return OperatorKind(
        name=schema.name,
        roles=tuple(argument.name for argument in schema.arguments),
        written=tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write),
        overwrites=base in _OVERWRITING or any(argument.is_out for argument in schema.arguments),
        is_view=bool(getattr(operator, "is_view", False)) or base in ("_unsafe_view", "lift_fresh"),
        allocates=base in _ALLOCATING,
        places=base in _PLACING,
        absorbs=base in _ABSORBING,
        multiplies=base in _MULTIPLYING,
        copies=base in _COPYING,
        keeps_rows=base in _ROW_BY_ROW or base in _COPYING or torch.Tag.pointwise in operator.tags,
        pointwise=torch.Tag.pointwise in operator.tags,
    )


def plain_name(name: str) -> str:
    """Returns ``log`` for ``aten::log`` and for ``aten::log_``."""
    base = name.partition("::")[2] or name
    return base if base.startswith("_") else base.rstrip("_")


def operator_of_node(node: str) -> str:
    """Returns the operator that created an autograd node, from its name: ``aten::log`` for ``LogBackward0``."""
    base = node.rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")
    letters = (
        f"_{letter.lower()}" if letter.isupper() and place else letter.lower() for place, letter in enumerate(base)
    )
    spelt = "".join(letters)
    # Digits hide the ends of words: log1p has Log1PBackward0, and nll_loss2d NllLoss2DBackward0.
    return f"aten::{_operators().get(spelt.replace('_', ''), spelt)}"


@cache
def _operators() -> dict[str, str]:
    """Returns the names of ``aten``'s operators by the same without underscores; the shortest of several."""
    names = {name.removeprefix("aten::").partition(".")[0] for name in operator_names()}
    return {name.replace("_", ""): name for name in sorted(names, key=len, reverse=True)}
