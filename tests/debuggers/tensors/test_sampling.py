"""Of the calls under each name an exact share is taken, evenly spread, and no random number is drawn."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debuggers.errors import DebuggerConfigError
from debuggers.tensors.sampling import REMEMBERED_NAMES, EvenSampling


@given(percent=st.integers(1, 100), calls=st.integers(1, 300))
def test_each_beginning_of_the_calls_has_its_exact_share(percent, calls):
    sampling = EvenSampling(percent / 100)
    taken = [sampling.takes("x") for _ in range(calls)]
    for n in range(1, calls + 1):
        assert sum(taken[:n]) == math.ceil(n * Fraction(percent, 100))


def test_a_third_as_a_float_takes_every_third_call():
    sampling = EvenSampling(1 / 3)
    assert [sampling.takes("x") for _ in range(9)] == [True, False, False] * 3


def test_each_name_is_counted_by_itself():
    sampling = EvenSampling(0.5)
    assert [sampling.takes(name) for name in "abababab"] == [True, True, False, False] * 2


def test_a_name_that_was_long_unused_starts_anew():
    sampling = EvenSampling(0.5)
    assert sampling.takes("x")
    for index in range(REMEMBERED_NAMES):
        sampling.takes(f"other {index}")
    assert sampling.takes("x")


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, math.nan, True, "0.1", None])
def test_a_wrong_rate_is_named(rate):
    with pytest.raises(DebuggerConfigError, match=r"sampling_rate is .*; expected a share above 0"):
        EvenSampling(rate)
