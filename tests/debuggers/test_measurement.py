"""A measurement equals a float64 reference on any values, and its histogram is that of ``Histogram.from_values``.

The reference of sums is ``math.fsum``. Tolerances: counts, histogram, min and max are exact; the mean is within 1e-12
of the largest magnitude, l1 and l2 within 1e-12 and the standard deviation within 1e-9 of themselves.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram

from debuggers import measurement
from debuggers.measurement import prepare, summarize

HISTOGRAM_COUNTS = (
    "count", "nan", "pos_inf", "neg_inf", "zero", "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 65504.0, 65520.0]
FLOATS = {
    torch.float64: st.one_of(st.sampled_from([*SPECIAL, 1e-300, -1e-50, 1e300]), st.floats()),
    torch.float32: st.one_of(st.sampled_from(SPECIAL), st.floats(width=32)),
}

# The fixture below is the same for all examples.
SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["kernel", "torch"], autouse=True)
def way(request, monkeypatch):
    """Each test holds for the compiled kernel and for torch operations alone."""
    if request.param == "torch":
        monkeypatch.setattr(measurement, "_load_kernel", lambda: None)
    else:
        pytest.importorskip("numba")
        prepare()
    return request.param


def assert_measured(summary, values):
    """``values``: the same elements as a float32 or float64 tensor."""
    expected = Histogram.from_values("x", values, step=3, time_ns=7)
    ours = summary.histogram("x", 3, time_ns=7)
    for key in HISTOGRAM_COUNTS:
        assert getattr(expected, key) == getattr(ours, key), key
    np.testing.assert_array_equal(expected.bins, ours.bins)
    np.testing.assert_array_equal(expected.counts, ours.counts)
    np.testing.assert_array_equal([expected.min, expected.max], [ours.min, ours.max])
    finite = [float(value) for value in values.flatten().double().tolist() if math.isfinite(value)]
    assert sum(value > 0 for value in finite) == summary.positive
    assert sum(value < 0 for value in finite) == summary.negative
    assert summary.count == summary.finite_count + summary.nan + summary.pos_inf + summary.neg_inf
    assert_moments(summary, finite)


def assert_moments(summary, finite):
    if not finite:
        assert math.isnan(summary.mean)
        assert math.isnan(summary.std)
        assert (summary.l1, summary.l2, summary.m2) == (0, 0, 0)
        return
    largest = max(abs(value) for value in finite)
    mean = math.fsum(value / len(finite) for value in finite)
    assert summary.mean == pytest.approx(mean, rel=0, abs=1e-12 * largest)
    if largest > 1e150:  # squares leave float64
        return
    assert summary.l1 == pytest.approx(math.fsum(abs(value) for value in finite), rel=1e-12)
    if largest > 1e-140:
        assert summary.l2 == pytest.approx(math.sqrt(math.fsum(value * value for value in finite)), rel=1e-12)
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))
        assert summary.std == pytest.approx(std, rel=1e-9, abs=1e-15 * largest)


@pytest.mark.parametrize("dtype", list(FLOATS))
@SETTINGS
@given(data=st.data())
def test_any_values_are_measured_exactly(way, dtype, data):
    values = torch.tensor(data.draw(st.lists(FLOATS[dtype], max_size=40)), dtype=dtype)
    assert_measured(summarize([values])[0], values)
