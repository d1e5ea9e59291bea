"""Mean and standard deviation of the last values are those of NumPy, however long the series and far from zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from debuggers.detectors.running_window import RunningWindow


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(2, 16))
def test_mean_and_spread_are_those_of_the_last_values(values, size):
    window = RunningWindow(size)
    for value in values:
        window.push(value)
    held = values[-size:]
    assert list(window) == held
    assert window.mean == pytest.approx(np.mean(held), abs=1e-6)
    assert window.std == pytest.approx(np.std(held, ddof=1), abs=1e-2)


def test_a_large_mean_keeps_a_small_spread_for_a_million_values():
    window = RunningWindow(128)
    noise = np.random.default_rng(0).normal(0, 1e-3, 1000).tolist()
    for _ in range(1000):
        for value in noise:
            window.push(1e6 + value)
    assert len(window) == 128
    assert window.std == pytest.approx(np.std(np.array(noise[-128:]), ddof=1), rel=1e-3)


def test_one_value_has_no_spread():
    window = RunningWindow(4)
    window.push(3.0)
    assert (window.mean, window.std, window.is_full) == (3.0, 0.0, False)
