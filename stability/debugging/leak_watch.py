"""Follows one series of memory sizes: says when it seems to grow without end, and takes that back when it ends."""

import math

import numpy as np

from stability.debugging.memory_trend import MemoryTrend, sen_slope
from stability.results.debugging import MemoryLeak

STEADY_SHARE = 0.1
"""Growth has ended when it falls to this share of what it was, over as many steps as it was seen in."""
GIVEN_BACK_SHARE = 0.5
_RECENT = 8
"""Samples whose median stands for the size of now."""


class LeakWatch:
    """A leak cannot be told from a cache that still fills: what grows is told, and watched further.

    It is taken back when the series stays steady for as long as it was seen to grow (a cache is full, a buffer has
    reached its bound), or gives back half of its growth (a sawtooth). After that it is told again only when it grows by
    ``leak_mb`` beyond its highest point so far: the next tooth of a saw is no news.

    Attributes:
        leak: What seems to leak now, or None.
        ended: What was taken back, with the steps from the first growth to its end.
    """

    def __init__(self, series: str, leak_mb: float) -> None:
        """Takes the name of the series, and the least growth that counts, in MB."""
        self.leak: MemoryLeak | None = None
        self.ended: list[MemoryLeak] = []
        self._series, self._leak_mb = series, leak_mb
        self._trend = MemoryTrend(leak_mb)
        self._highest = self._least_to_tell = -math.inf
        self._start = 0.0

    def look(self, step: int, value: float) -> str | None:
        """Takes the size at a step in MB; returns ``begun`` or ``ended`` when a leak begins or is taken back there."""
        self._highest = max(self._highest, value)
        if not self._trend.add(step, value):
            return None
        if self.leak is None:
            return self._begin(value)
        return self._end(step, self.leak)

    def _begin(self, value: float) -> str | None:
        found = self._trend.find() if value >= self._least_to_tell else None
        if found is None:
            return None
        self._start = float(self._trend.since(found.first_step)[0])
        self.leak = MemoryLeak(
            series=self._series,
            steps=(found.first_step, found.last_step),
            growth_mb=found.growth,
            p_value=found.p_value,
        )
        return "begun"

    def _end(self, step: int, leak: MemoryLeak) -> str | None:
        first, last = leak["steps"]
        recent = self._trend.since(step - (last - first), at_least=_RECENT)
        growth = sen_slope(recent) * (len(recent) - 1)
        now = float(np.median(recent[-_RECENT:]))
        given_back = now < self._start + GIVEN_BACK_SHARE * leak["growth_mb"]
        if growth >= STEADY_SHARE * leak["growth_mb"] and not given_back:
            return None
        self.ended.append(
            MemoryLeak(
                series=self._series,
                steps=(first, step),
                growth_mb=self._highest - self._start,
                p_value=leak["p_value"],
            )
        )
        self.leak, self._least_to_tell = None, self._highest + self._leak_mb
        return "ended"
