import ml_dtypes
import numpy as np
import pytest

from stepscope.viewer.outputs import arrays


def test_statistics_are_those_of_the_finite_values_and_count_the_others():
    values = np.array([[0.0, 1.0, np.nan], [np.inf, -np.inf, 5.0]], np.float32)
    found = arrays.statistics(values)
    assert {key: found[key] for key in ("elements", "nan", "pinf", "ninf", "zero")} == {
        "elements": 6, "nan": 1, "pinf": 1, "ninf": 1, "zero": 1,
    }  # fmt: skip
    assert (found["min"], found["max"], found["mean"]) == (0.0, 5.0, 2.0)
    assert found["std"] == pytest.approx(np.std([0, 1, 5]))


def test_the_histogram_counts_each_finite_value_once_over_several_parts():
    values = np.random.default_rng(0).normal(size=arrays._CHUNK + 1000)
    found = arrays.statistics(values)["histogram"]
    counts, _ = np.histogram(values, arrays.BINS)
    assert sum(found["counts"]) == values.size
    assert np.abs(np.array(found["counts"]) - counts).max() <= 2  # rounding at the edges of a bin


@pytest.mark.parametrize("values", [np.full(3, np.nan), np.zeros((0, 4)), np.full((2, 2), 7.0)])
def test_values_that_have_no_range_have_no_histogram(values):
    assert arrays.statistics(values)["histogram"] is None


def test_a_range_beyond_float64_is_no_error():
    found = arrays.statistics(np.array([-1.7e308, 1.7e308]))
    assert (found["min"], found["max"], found["histogram"]) == (-1.7e308, 1.7e308, None)


def test_narrow_floats_are_numbers_and_complex_ones_and_texts_are_not():
    assert arrays.is_numeric(np.zeros(2, ml_dtypes.bfloat16))
    assert arrays.statistics(np.ones(2, ml_dtypes.bfloat16))["mean"] == 1.0
    assert not arrays.is_numeric(np.zeros(2, np.complex64))
    assert not arrays.is_numeric(np.array(["a"]))


def test_numbers_that_json_lacks_are_texts():
    found = [arrays.number(value) for value in (float("nan"), float("inf"), float("-inf"), 1.5, True, 2**60)]
    assert found == ["NaN", "Infinity", "-Infinity", 1.5, True, str(2**60)]
