"""What a narrow dtype flushes or saturates is counted from histograms, as casting the values does."""

import ml_dtypes
import numpy as np
import pytest
from tracker_adapters.artifacts import Histogram
from tracker_adapters.histograms.columns import HistogramColumns

from debuggers.detectors import Overflow, Underflow
from debuggers.detectors.narrow_range import NARROW_DTYPES, shares_outside

TYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def columns_of(*arrays):
    return HistogramColumns.of([Histogram.from_values("x", array, step=0) for array in arrays])


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_shares_are_those_of_casting(dtype):
    values = (np.random.default_rng(0).normal(size=20_000) * np.logspace(-12, 7, 20_000)).astype(np.float32)
    (under,), (over,) = shares_outside(columns_of(values), dtype)
    with np.errstate(over="ignore"):
        cast = values.astype(TYPES[dtype]).astype(np.float32)
    assert under == pytest.approx(np.mean(cast == 0), abs=1e-9)
    assert over == pytest.approx(np.mean(~np.isfinite(cast)), abs=2e-3)  # a limit divides a bin
    assert over <= np.mean(~np.isfinite(cast)) + 1e-12


def test_a_loss_scale_lifts_values_into_the_range():
    values = np.full(100, 2.0**-30, np.float32)
    assert shares_outside(columns_of(values), "float16")[0] == [1.0]
    assert shares_outside(columns_of(values), "float16", scale=65536.0)[0] == [0.0]


def test_zeros_count_neither_way_and_a_tensor_of_zeros_has_no_share():
    zeros, half = np.zeros(10, np.float32), np.array([0, 1e-20, 1.0, 0], np.float32)
    under, over = shares_outside(columns_of(zeros, half, np.empty(0, np.float32)), "float16")
    np.testing.assert_array_equal(under, [np.nan, 0.5, np.nan])
    np.testing.assert_array_equal(over, [np.nan, 0.0, np.nan])


@pytest.mark.parametrize("arguments", [{"dtype": "int8"}, {"dtype": "float16", "scale": 0.0}])
def test_what_is_no_dtype_or_scale_is_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        shares_outside(columns_of(np.ones(2, np.float32)), **arguments)


@pytest.mark.parametrize(
    "rule, share, found",
    [(Underflow, 0.051, 1), (Underflow, 0.05, 0), (Underflow, np.nan, 0), (Overflow, 1e-6, 1), (Overflow, 0.0, 0)],
)
def test_the_definition_is_found_at_five_steps_and_not_just_below_it(observe, rule, share, found):
    detector = rule()
    (statistic,) = detector.statistics
    begun = [len(detector.see(observe(step, **{statistic: [share]}))) for step in range(6)]
    assert begun == [0, 0, 0, 0, found, 0]
