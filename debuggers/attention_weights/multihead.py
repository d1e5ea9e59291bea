"""The attention weights of ``torch.nn.MultiheadAttention``, head by head, from its inputs and parameters."""

import inspect
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights.weights import AttentionWeights, GivenWeights, ScaledDotProduct, whole_tensor, widened
from debuggers.torch_import import torch

_MODULE = inspect.signature(torch.nn.MultiheadAttention.forward)
_FUNCTION = inspect.signature(torch.nn.functional.multi_head_attention_forward)
_PARAMETERS = ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "bias_k")


def is_multihead_attention(module: torch.nn.Module) -> TypeGuard[torch.nn.MultiheadAttention]:
    """Whether the module computes what ``torch.nn.MultiheadAttention`` does: its ``forward`` is not overridden."""
    if not isinstance(module, torch.nn.MultiheadAttention) or "forward" in vars(module):
        return False
    return type(module).forward is torch.nn.MultiheadAttention.forward


def module_weights(
    module: torch.nn.MultiheadAttention, inputs: tuple[Any, ...], keywords: Mapping[str, Any], output: Any
) -> AttentionWeights:
    """Returns the weights of a call of the module, one map a head: (B, heads, L, S), or (heads, L, S) without batch.

    They are those that the module returned if it returned one map a head and used no dropout. Otherwise they
    are computed, before dropout: an average over heads would hide what each head does. Of a parametrized module
    they are what it returned, because reading its weights would run the parametrization.

    ``is_causal`` is a hint that goes with a mask; the mask is what counts.

    Args:
        module: The module, with the mode and parameters of the call.
        inputs: The positional arguments of its forward.
        keywords: The keyword arguments.
        output: What it returned.

    Raises:
        ArtifactError: When a tensor has no plain real values, or the module is parametrized and returned none.
    """
    bound = _MODULE.bind(module, *inputs, **keywords)
    bound.apply_defaults()
    call = bound.arguments
    average, returned = call["average_attn_weights"], output[1]
    if returned is not None and not average and not (module.training and module.dropout > 0):
        return GivenWeights(returned, per_head=True)
    if torch.nn.utils.parametrize.is_parametrized(module):
        if returned is None:
            raise ArtifactError("the module is parametrized; pass need_weights=True to see its attention weights")
        return GivenWeights(returned, per_head=not average)
    query, key = _values(call["query"]), _values(call["key"])
    if module.batch_first and query.ndim == 3:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    own = {name: getattr(module, name) for name in _PARAMETERS}
    return _product(
        {
            **call,
            **own,
            "query": query,
            "key": key,
            "num_heads": module.num_heads,
            "add_zero_attn": module.add_zero_attn,
            "use_separate_proj_weight": own["in_proj_weight"] is None,
            "static_k": None,
        },
        _masked_row(output[0], module.batch_first),
    )


def functional_weights(*args: Any, **kwargs: Any) -> ScaledDotProduct:
    """Returns the weights of a call of ``torch.nn.functional.multi_head_attention_forward``, whose arguments it takes.

    One map a head, before dropout: (B, heads, L, S), or (heads, L, S) without batch.

    Raises:
        ArtifactError: When a tensor has no plain real values.
    """
    bound = _FUNCTION.bind(*args, **kwargs)
    bound.apply_defaults()
    call = bound.arguments
    query = call["query"]
    lost = torch.full((query.shape[0], 1), math.nan, device=query.device) if call["need_weights"] else None
    return _product(call, lost)


def may_take_fast_path(module: torch.nn.Module) -> bool:
    """Whether torch may run the module by one fused kernel: in eval mode, with nothing in it that needs a gradient.

    ``torch.nn.MultiheadAttention`` and ``torch.nn.TransformerEncoderLayer`` have such a path, and leave it while a
    torch function mode is active; their results then differ in the last bits.
    """
    if not isinstance(module, (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)):
        return False
    if module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    return not (torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()))


def _product(call: Mapping[str, Any], masked_row: torch.Tensor | None) -> ScaledDotProduct:
    query, key, heads = _values(call["query"]), _values(call["key"]), call["num_heads"]
    batched = query.ndim == 3
    if not batched:
        query, key = query[:, None], key[:, None]
    query, key = _projected(call, query, key)
    if call["bias_k"] is not None:
        key = torch.cat([key, _values(call["bias_k"]).expand(1, key.shape[1], -1)])
    query, key = _by_head(query, heads), _by_head(key, heads)
    if call["static_k"] is not None:
        key = _heads_apart(_values(call["static_k"]), heads)
    if call["add_zero_attn"]:
        key = torch.nn.functional.pad(key, (0, 0, 0, 1))
    masks = _masks(call, heads, key.shape[-2])
    if not batched:
        query, key, masks = query[0], key[0], tuple(mask[0] for mask in masks)
    return ScaledDotProduct(
        query=query,
        key=key,
        scale=query.shape[-1] ** -0.5,
        per_head=True,
        source="multihead_attention",
        masks=masks,
        masked_row=masked_row,
    )


def _projected(call: Mapping[str, Any], query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if call["use_separate_proj_weight"]:
        of_query, of_key = _values(call["q_proj_weight"]), _values(call["k_proj_weight"])
    else:
        of_query, of_key, _ = _values(call["in_proj_weight"]).chunk(3)
    bias = call["in_proj_bias"]
    query_bias, key_bias, _ = (None, None, None) if bias is None else _values(bias).chunk(3)
    return torch.nn.functional.linear(query, of_query, query_bias), torch.nn.functional.linear(key, of_key, key_bias)


def _masked_row(result: torch.Tensor, batch_first: bool) -> torch.Tensor:
    """Returns the weights of queries whose keys are all masked: NaN or zeros, as torch made them.

    Args:
        result: What the module computed, (B, L, E), (L, B, E) or (L, E): the NaN of weights reaches it.
        batch_first: Which of them with a batch.
    """
    lost = whole_tensor(result).isnan().any(-1)
    if lost.ndim == 2:
        lost = (lost if batch_first else lost.T)[:, None]
    return torch.where(lost, math.nan, 0.0)[..., None]


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return widened(whole_tensor(tensor))


def _by_head(values: torch.Tensor, heads: int) -> torch.Tensor:
    """(L, B, E) -> (B, heads, L, E / heads)."""
    return values.reshape(*values.shape[:2], heads, values.shape[-1] // heads).permute(1, 2, 0, 3)


def _heads_apart(values: torch.Tensor, heads: int) -> torch.Tensor:
    """(B * heads, L, S) -> (B, heads, L, S)."""
    return values.reshape(len(values) // heads, heads, *values.shape[1:])


def _masks(call: Mapping[str, Any], heads: int, keys: int) -> tuple[torch.Tensor, ...]:
    """Returns the masks as (B or 1, heads or 1, L or 1, keys), True for what takes part."""
    attention, padding = call["attn_mask"], call["key_padding_mask"]
    masks = []
    if attention is not None:
        masks.append(attention[None, None] if attention.ndim == 2 else _heads_apart(attention, heads))
    if padding is not None:
        masks.append((padding if padding.ndim == 2 else padding[None])[:, None, None])
    return tuple(_taking_part(whole_tensor(mask), keys) for mask in masks)


def _taking_part(mask: torch.Tensor, keys: int) -> torch.Tensor:
    # bias_kv and add_zero_attn append keys that no mask hides.
    appended = (0, keys - mask.shape[-1])
    if mask.dtype == torch.bool:
        return torch.nn.functional.pad(mask.logical_not(), appended, value=True)
    return torch.nn.functional.pad(mask, appended)
