"""Finds attention weights in what a layer returned."""

import math
from collections.abc import Mapping
from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights.weights import GivenWeights
from debuggers.layer_values.values import real_values
from debuggers.torch_import import torch

NAMES = (
    "attentions",
    "attention_weights",
    "attn_weights",
    "attn_output_weights",
    "attention_probs",
    "attn_probs",
    "encoder_attentions",
    "decoder_attentions",
    "cross_attentions",
    "attention",
    "attn",
)
"""Keys and attributes under which attention weights are looked for."""


_ROW_SUM_TOLERANCE = 0.02
"""bfloat16 rounds each weight by up to 0.4 %."""
_MEAN_ROW_SUM = (0.5, 1.5)
"""Of weights with dropout: it keeps the sums of rows only on average."""


def returned_weights(output: Any, *, training: bool = False) -> dict[str, torch.Tensor]:
    """Returns the attention weights in a layer's output, by name; none if it is a tensor.

    In a mapping, or the attributes of an object such as a named tuple or a data class, they are looked for under
    ``NAMES``: a tensor, or a sequence of tensors. If there are none, a list or tuple is searched after its first
    tensor, the layer's result: for a square map, or one with as many queries as the result has positions.

    Weights are floating point, have two dimensions or more and, where that can be read without waiting for a
    device, no negative values. Layers also return other things beside their result, such as the position bias of T5: of
    what has no name, the rows have to sum to 1 each, or to 0 where all keys are masked. On a device the last that has
    the right shape is taken, and is NaN where its rows do not.

    Args:
        output: What the layer returned.
        training: Whether dropout may have been applied: the sums then have to be about 1 on average.
    """
    if isinstance(output, torch.Tensor):
        return {}
    found = {}
    for name in NAMES:
        value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        for index, item in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            if _may_be_weights(item):
                found[name if item is value else f"{name}_{index}"] = item
    return found or _beside_the_result(output, training)


def output_weights(output: torch.Tensor) -> GivenWeights:
    """Returns a layer's output as attention weights, which it is taken to be.

    Raises:
        ArtifactError: When it cannot be: no floating point, no plain values, or negative ones (on the host).
    """
    weights = GivenWeights(output, source="output")
    if _has_negative(output):
        raise ArtifactError(
            "the output is a tensor with negative values, and the layer called no scaled_dot_product_attention of "
            "torch.nn.functional"
        )
    return weights


def _beside_the_result(output: Any, training: bool) -> dict[str, torch.Tensor]:
    if not isinstance(output, (list, tuple)) or not output or not isinstance(output[0], torch.Tensor):
        return {}
    on_device = {}
    for index, item in enumerate(output[1:], 1):
        if not _may_be_weights(item) or not item.numel() or item.shape == output[0].shape:
            continue
        queries, keys = item.shape[-2:]
        if queries == keys or queries in output[0].shape[:-1]:
            is_distribution = _is_distribution(item, training)
            if item.device.type != "cpu":
                on_device = {str(index): torch.where(is_distribution, item, math.nan)}
            elif is_distribution:
                return {str(index): item}
    return on_device


def _is_distribution(values: torch.Tensor, training: bool) -> torch.Tensor:
    """Whether the rows sum to 1, as a bool tensor () on the values' device; rows of zeros or with NaN are left out."""
    sums = real_values(values).sum(-1)
    counts = sums != 0  # true of NaN
    low, high = _MEAN_ROW_SUM
    known = counts & ~sums.isnan()
    mean = torch.where(known, sums, 0).sum() / known.sum().clamp(min=1)
    is_one = (sums - 1).abs() <= _ROW_SUM_TOLERANCE
    fits = ((mean >= low) & (mean <= high)) | ~known.any() if training else (is_one | ~known).all()
    return fits & counts.any()


def _may_be_weights(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.is_nested or value.ndim < 2:
        return False
    try:
        return not _has_negative(value)
    except ArtifactError:
        return False


def _has_negative(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and bool((real_values(values) < 0).any())
