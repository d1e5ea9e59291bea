"""Values at all the edges of a histogram's bins, for property tests."""

import math
from typing import Any

from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram

FLOAT32_MAX = 3.4028234663852886e38
ANY = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e-46, -1e-46, 2.0**-149, 2.0**-150, 2.0**-129, FLOAT32_MAX]),
    st.sampled_from([2.0**128, -(2.0**128), FLOAT32_MAX * (1 + 2**-26), 1.7e308, -1.7e308, 1.0, 1.125, -1.125]),
)
LISTS = st.lists(ANY, max_size=40)


def finite(values: list[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def of(values: Any, name: str = "h", step: int = 0) -> Histogram:
    return Histogram.from_values(name, values, step=step, time_ns=1)
