"""Measures attention weights block by block, so that a large map never has to lie in memory at once."""

import math
from typing import Any

from debuggers.attention_weights.weights import AttentionWeights
from debuggers.layer_values.values import number, numbers
from debuggers.torch_import import torch


class AttentionMeasurement:
    """The statistics of attention weights, and the map itself where it is small enough.

    ``map`` holds the weights in float32 or wider, or None. ``statistics`` is a dict:

    - ``entropy``: of each query's weights, in nats, with 0 log 0 = 0; the mean over all queries.
    - ``entropy_per_head``: the same for each head, a list; only where there are heads.
    - ``max_attention``: the largest weight.
    - ``attention_distribution``: how much attention each key gets, the mean over the queries: the map's shape
      without the queries.
    - ``mean_row_sum``: the mean over the queries of the sum of their weights: 1 for a softmax.
    - ``masked_rows``: how many queries attend to nothing, having only zeros; no mean counts them.
    - ``non_finite_rows``: how many queries have NaN or infinite weights. NaN makes the means and the maximum NaN.
    - ``shape``: the map's shape, as a list.

    Numbers are those of the host as float and int, those of a device 0-d tensors. The means of nothing, or of
    masked queries alone, are NaN.
    """

    def __init__(self, weights: AttentionWeights, max_elements: int, block_elements: int) -> None:
        """Measures.

        Args:
            weights: Weights of shape (..., queries, keys).
            max_elements: The largest map that is kept, in elements.
            block_elements: The most elements that are computed at once, but at least those of one query.
        """
        *_, queries, _ = weights.shape
        size = math.prod(weights.shape)
        rows = _Rows()
        self.map: torch.Tensor | None = None
        if size <= max_elements:
            self.map = weights.block(0, queries)
            rows.add(self.map)
        else:
            step = max(1, block_elements // (size // queries))
            for start in range(0, queries, step):
                rows.add(weights.block(start, start + step))
        self.statistics = {**rows.statistics(weights.per_head), "shape": list(weights.shape)}


class _Rows:
    """What the statistics need to know of the queries: their sums and entropies, and what each key gets of them."""

    def __init__(self) -> None:
        self._sums: list[torch.Tensor] = []
        self._entropies: list[torch.Tensor] = []
        self._largest: list[torch.Tensor] = []
        self._received: torch.Tensor | float = 0.0

    def add(self, block: torch.Tensor) -> None:
        self._sums.append(block.sum(-1))
        self._entropies.append(torch.special.entr(block).sum(-1))
        self._largest.append(block.amax() if block.numel() else block.new_full((), math.nan))
        self._received = block.sum(-2) + self._received

    def statistics(self, per_head: bool) -> dict[str, Any]:
        sums, entropies = torch.cat(self._sums, -1), torch.cat(self._entropies, -1)
        attends = sums != 0
        statistics: dict[str, Any] = {"entropy": number(_mean(entropies, attends))}
        if per_head:
            heads, counted = (values.movedim(-2, 0).flatten(1) for values in (entropies, attends))
            statistics["entropy_per_head"] = numbers(_mean(heads, counted, 1))
        return {
            **statistics,
            "max_attention": number(torch.stack(self._largest).amax()),
            "attention_distribution": self._received / attends.sum(-1, keepdim=True),
            "mean_row_sum": number(_mean(sums, attends)),
            "masked_rows": _count(~attends),
            "non_finite_rows": _count(~torch.isfinite(sums)),
        }


def _mean(values: torch.Tensor, counted: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    return torch.where(counted, values, 0).sum(dim) / counted.sum(dim)


def _count(mask: torch.Tensor) -> int | torch.Tensor:
    count = mask.sum()
    return int(count) if count.device.type == "cpu" else count
