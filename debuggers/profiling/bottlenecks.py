"""Which parts take so much of the time or memory that they are worth looking at, and what to do about it.

A share is a layer's sum over the sum of all layers. One is called a bottleneck from half of the whole on, or from two
thirds if there are no more than three layers, where half is near the even share. By Amdahl's law (1967) a part with
share ``p`` that gets ``s`` times faster makes the whole ``1 / (1 - p + p / s)`` times faster, so that below half not
even a part that takes no time at all makes it twice as fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from debuggers.profiling.totals import LayerTotals

LARGE_SHARE = 0.5
EVEN_SHARES = 2.0
"""Of up to three layers, twice the even share of three."""
SLOW_BACKWARD = 4.0
"""A backward pass has two matrix products for each one of the forward pass; twice that ratio is unusual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """A layer that takes much.

    Attributes:
        name: The layer.
        kind: Its type.
        of: What it takes much of: ``time``, ``memory``, or ``backward`` for a slow backward pass.
        value: Seconds, bytes, or the ratio of backward to forward time.
        share: Of the whole of all layers; for ``backward`` its time's share of the time.
        limit: The value of ``share``, for ``backward`` of ``value``, from which it is one.
    """

    name: str
    kind: str
    of: Literal["time", "memory", "backward"]
    value: float
    share: float
    limit: float


def find_bottlenecks(layers: Sequence[LayerTotals]) -> tuple[Bottleneck, ...]:
    """Returns the layers that take much, the largest share first; a single layer is compared with nothing."""
    if len(layers) < 2:
        return ()
    share_limit = max(LARGE_SHARE, EVEN_SHARES / max(len(layers), 3))
    time = sum(layer.total_s for layer in layers)
    memory = sum(layer.peak_memory_bytes or 0.0 for layer in layers)
    found = []
    for layer in layers:
        share = layer.total_s / time if time > 0 else 0.0
        if share >= share_limit:
            found.append(_bottleneck(layer, "time", layer.total_s, share, share_limit))
        held = layer.peak_memory_bytes or 0.0
        if memory > 0 and held / memory >= share_limit:
            found.append(_bottleneck(layer, "memory", held, held / memory, share_limit))
        ratio = backward_ratio(layer)
        if ratio is not None and ratio > SLOW_BACKWARD and share >= 1 / len(layers):
            found.append(_bottleneck(layer, "backward", ratio, share, SLOW_BACKWARD))
    return tuple(sorted(found, key=lambda one: -one.share))


def backward_ratio(layer: LayerTotals) -> float | None:
    """Returns mean backward time over mean forward time; None where either is missing or zero."""
    if not layer.backward_count or layer.forward_s <= 0:
        return None
    return (layer.backward_s / layer.backward_count) / (layer.forward_s / layer.count)


def suggestion(bottleneck: Bottleneck) -> str:
    """Returns what to try, with the arithmetic behind it."""
    what = f"{bottleneck.name} ({bottleneck.kind})"
    share = f"{bottleneck.share:.0%}"
    if bottleneck.of == "time":
        twice = 1 / (1 - bottleneck.share / 2)
        return (
            f"{what} takes {share} of the layers' time ({bottleneck.value:.3g} s): twice as fast, it would make all "
            f"layers 1 / (1 - {bottleneck.share:.2f} / 2) = {twice:.2f} times as fast; try a narrower dtype, a fused "
            "kernel, or torch.compile on it"
        )
    if bottleneck.of == "memory":
        saved = bottleneck.value / 2**20
        return (
            f"{what} holds {share} of the layers' memory ({saved:,.1f} MiB): activation checkpointing of it frees up "
            f"to these {saved:,.1f} MiB for one more forward pass of it in each step"
        )
    return (
        f"{what} takes {bottleneck.value:.1f} times as long backward as forward, where twice is usual for matrix "
        "products: look for scatter, indexing or recomputation (checkpointing) in its backward pass"
    )


def _bottleneck(
    layer: LayerTotals, of: Literal["time", "memory", "backward"], value: float, share: float, limit: float
) -> Bottleneck:
    return Bottleneck(name=layer.name, kind=layer.kind, of=of, value=value, share=share, limit=limit)
