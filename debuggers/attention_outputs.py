"""Finds attention weights in what a layer returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights import GivenWeights
from debuggers.layer_values import real_values
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


def returned_weights(output: Any) -> dict[str, torch.Tensor]:
    """Returns the attention weights in a layer's output, by name; none if it is a tensor.

    In a mapping, or the attributes of an object such as a named tuple or a data class, they are looked for under
    ``NAMES``: a tensor, or a sequence of tensors. If there are none, a list or tuple is searched after its first
    tensor, the layer's result: for a square map, or one with as many queries as the result has positions.

    Weights are floating point, have two dimensions or more and, where that can be read without waiting for a
    device, no negative values.
    """
    if isinstance(output, torch.Tensor):
        return {}
    found = {}
    for name in NAMES:
        value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        for index, item in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            if _may_be_weights(item):
                found[name if item is value else f"{name}_{index}"] = item
    return found or _beside_the_result(output)


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


def _beside_the_result(output: Any) -> dict[str, torch.Tensor]:
    if not isinstance(output, (list, tuple)) or not output or not isinstance(output[0], torch.Tensor):
        return {}
    for index, item in enumerate(output[1:], 1):
        if _may_be_weights(item) and item.shape != output[0].shape:
            queries, keys = item.shape[-2:]
            if queries == keys or queries in output[0].shape[:-1]:
                return {str(index): item}
    return {}


def _may_be_weights(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.is_nested or value.ndim < 2:
        return False
    try:
        return not _has_negative(value)
    except ArtifactError:
        return False


def _has_negative(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and bool((real_values(values) < 0).any())
