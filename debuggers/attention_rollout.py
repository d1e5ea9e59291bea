"""Attention rollout: how much of each input position reaches each position of a later layer."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from debuggers.errors import DebuggerConfigError
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.layer_values.values import real_values
from debuggers.torch_import import torch

HeadFusion = Literal["mean", "max", "min"]
_FUSIONS = ("mean", "max", "min")


def attention_rollout(
    maps: Sequence[torch.Tensor] | Sequence[npt.NDArray[Any]],
    *,
    residual: float = 0.5,
    head_fusion: HeadFusion | None = "mean",
) -> torch.Tensor | npt.NDArray[Any]:
    """Returns the attention of the last layer's positions to the first layer's input, through all layers between.

    Each layer's heads are fused and mixed with the residual connection, A = residual * I + (1 - residual) * W,
    the rows of A are scaled to sum 1, and the result is A_last @ ... @ A_first (Abnar and Zuidema, "Quantifying
    Attention Flow in Transformers", 2020, whose residual is 0.5).

    Args:
        maps: The self-attention weights of the layers, first layer first: tensors or arrays of one shape,
            (..., heads, N, N), or (..., N, N) with ``head_fusion=None``.
        residual: The residual connection's share, from 0 to 1.
        head_fusion: How a layer's heads become one map; None when there are no heads.

    Returns:
        (..., N, N) in float32 or wider, an array if the maps are arrays: row i says where position i of the last
        layer looks. Rows sum to 1. A query that attends to nothing keeps its residual connection, and is all
        zeros with ``residual=0``. NaN makes every row NaN that depends on it.

    Raises:
        DebuggerConfigError: For no maps, maps that are not square or differ in shape, another residual or fusion.
        ArtifactError: For maps without plain real values.
    """
    if not 0 <= residual <= 1:
        raise DebuggerConfigError(f"residual is {residual!r}; expected a number from 0 to 1")
    if head_fusion is not None and head_fusion not in _FUSIONS:
        raise DebuggerConfigError(f"head_fusion is {head_fusion!r}; expected one of {', '.join(_FUSIONS)}, or None")
    layers = list(maps)
    if not layers:
        raise DebuggerConfigError("attention_rollout: got no maps; expected one for each layer")
    weights = [_weights(layer) for layer in layers]
    _check_shapes([tuple(layer.shape) for layer in weights], 2 if head_fusion is None else 3)
    with quiet_computation(weights[0].device.type):
        rollout = _mixed(weights[0], residual, head_fusion)
        for layer in weights[1:]:
            rollout = _mixed(layer, residual, head_fusion) @ rollout
    return rollout if isinstance(layers[0], torch.Tensor) else rollout.numpy()


def _weights(layer: Any) -> torch.Tensor:
    if isinstance(layer, torch.Tensor):
        return real_values(layer)
    # A page's arrays are read-only and may be bfloat16: float32 or wider, in memory of our own.
    array = np.asarray(layer)
    return torch.from_numpy(np.array(array, dtype=np.result_type(array.dtype, np.float32)))


def _check_shapes(shapes: list[tuple[int, ...]], dimensions: int) -> None:
    for number, shape in enumerate(shapes):
        if len(shape) < dimensions or shape[-1] != shape[-2]:
            expected = "(..., heads, N, N)" if dimensions == 3 else "(..., N, N)"
            raise DebuggerConfigError(f"map {number} has shape {shape}; expected self-attention, {expected}")
        if shape != shapes[0]:
            raise DebuggerConfigError(f"map {number} has shape {shape}, map 0 {shapes[0]}; expected one shape")


def _mixed(weights: torch.Tensor, residual: float, head_fusion: HeadFusion | None) -> torch.Tensor:
    if head_fusion == "mean":
        weights = weights.mean(-3)
    elif head_fusion is not None:
        weights = weights.amax(-3) if head_fusion == "max" else weights.amin(-3)
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    mixed = residual * identity + (1 - residual) * weights
    sums = mixed.sum(-1, keepdim=True)
    return mixed / torch.where(sums == 0, 1, sums)
