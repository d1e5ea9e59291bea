"""Attention weights, a block of queries at a time: out of a tensor, or computed from queries and keys."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from tracker_adapters.errors import ArtifactError

from debuggers.host_arrays.readable import readable_tensor
from debuggers.torch_import import torch


class AttentionWeights(Protocol):
    """Weights of shape (..., queries, keys)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all the weights."""

    @property
    def per_head(self) -> bool:
        """Whether the dimension before the queries is the heads."""

    @property
    def source(self) -> str:
        """Where the weights come from."""

    def block(self, start: int, stop: int) -> torch.Tensor:
        """Returns the weights of the queries from ``start`` up to ``stop``, in float32 or wider."""


class GivenWeights:
    """Weights that a layer returned: (..., queries, keys), or (keys,) for a single query."""

    def __init__(self, values: torch.Tensor, per_head: bool | None = None, source: str = "returned") -> None:
        """Takes a tensor of real floating point values.

        Args:
            values: The weights.
            per_head: Whether dimension -3 is the heads; by default it is where there are four or more.
            source: Where they come from.

        Raises:
            ArtifactError: When it has no plain real values, or is split along its queries or keys.
        """
        if not isinstance(values, torch.Tensor) or not values.is_floating_point() or values.ndim == 0:
            raise ArtifactError(f"expected attention weights, a floating point tensor; got {_described(values)}")
        rows = whole_tensor(values, values.ndim - 2)
        self._rows = rows if rows.ndim > 1 else rows[None]
        self.shape = tuple(self._rows.shape)
        self.per_head = self._rows.ndim > 3 if per_head is None else per_head
        self.source = source

    def block(self, start: int, stop: int) -> torch.Tensor:
        """See ``AttentionWeights``."""
        return widened(self._rows[..., start:stop, :])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledDotProduct:
    """softmax(query @ key^T * scale + masks), the weights before any dropout.

    ``query`` (..., queries, features) and ``key`` (..., keys, features) are float32 or wider; the dimensions
    before broadcast. Each mask broadcasts to (..., queries, keys): True takes part where it is bool, and
    anything else is added. With a ``causal_offset``, query i attends to the keys up to i + causal_offset. A
    query whose scores are all minus infinity has ``masked_row`` (..., queries, 1) as its weights, by default zeros.
    """

    query: torch.Tensor
    key: torch.Tensor
    scale: float
    per_head: bool
    source: str
    masks: tuple[torch.Tensor, ...] = ()
    causal_offset: int | None = None
    masked_row: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """See ``AttentionWeights``."""
        leading = torch.broadcast_shapes(self.query.shape[:-2], self.key.shape[:-2])  # type: ignore[no-untyped-call]
        return (*leading, self.query.shape[-2], self.key.shape[-2])

    def block(self, start: int, stop: int) -> torch.Tensor:
        """See ``AttentionWeights``."""
        scores = self.query[..., start:stop, :] @ self.key.mT * self.scale
        for mask in self.masks:
            rows = mask if mask.shape[-2] == 1 else mask[..., start:stop, :]
            scores = scores.masked_fill(~rows, -math.inf) if rows.dtype == torch.bool else scores + rows
        if self.causal_offset is not None:
            keys = torch.arange(scores.shape[-1], device=scores.device)
            last = torch.arange(start, start + scores.shape[-2], device=scores.device) + self.causal_offset
            scores = scores.masked_fill(keys > last[:, None], -math.inf)
        masked = (scores == -math.inf).all(-1, keepdim=True)
        row: Any = 0.0 if self.masked_row is None else self.masked_row[..., start:stop, :]
        return torch.where(masked, row, scores.softmax(-1))


def scaled_dot_product(  # noqa: PLR0917 (the arguments are those of torch)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ScaledDotProduct:
    """Returns the weights of a call of ``torch.nn.functional.scaled_dot_product_attention``, whose arguments it takes.

    With four dimensions or more, the third from the end is the heads.

    Raises:
        ArtifactError: When a tensor has no plain real values, or is split along its queries, keys or features.
    """
    queries, keys = (widened(whole_tensor(tensor, tensor.ndim - 2)) for tensor in (query, key))
    if enable_gqa:
        keys = keys.repeat_interleave(queries.shape[-3] // keys.shape[-3], -3)
    offset = 0 if is_causal else None
    masks: tuple[torch.Tensor, ...] = ()
    if hasattr(attn_mask, "seq_len_kv"):  # torch.nn.attention.bias.CausalBias, which holds no values
        lower_right = attn_mask.variant.name == "LOWER_RIGHT"
        offset = attn_mask.seq_len_kv - attn_mask.seq_len_q if lower_right else 0
    elif attn_mask is not None:
        mask = whole_tensor(attn_mask, attn_mask.ndim - 2)
        masks = (mask if mask.ndim > 1 else mask[None],)
    return ScaledDotProduct(
        query=queries,
        key=keys,
        scale=queries.shape[-1] ** -0.5 if scale is None else scale,
        per_head=queries.ndim > 3,
        source="scaled_dot_product_attention",
        masks=masks,
        causal_offset=offset,
    )


def whole_tensor(tensor: torch.Tensor, divisible: int = 0) -> torch.Tensor:
    """Returns a tensor as a plain one; of a DTensor the local shard.

    Args:
        tensor: The tensor.
        divisible: A DTensor may be split along this many of its first dimensions.

    Raises:
        ArtifactError: When it has no plain values, or is a DTensor split along another dimension.
    """
    for placement in getattr(tensor, "placements", ()):
        if not placement.is_replicate() and not any(placement.is_shard(dim) for dim in range(divisible)):
            raise ArtifactError(
                f"a DTensor of shape {tuple(tensor.shape)} is placed as {placement}; its attention weights need all "
                "queries, keys and features on one rank"
            )
    return readable_tensor(tensor)


def widened(values: torch.Tensor) -> torch.Tensor:
    """Returns floating point values in float32 or wider.

    Raises:
        ArtifactError: For another dtype.
    """
    if values.dtype in (torch.float32, torch.float64):
        return values
    if not values.is_floating_point():
        raise ArtifactError(f"expected floating point queries, keys and weights; got a tensor of {values.dtype}")
    return values.float()


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a {value.ndim}-d {value.dtype} tensor"
    return f"a {type(value).__name__}"
