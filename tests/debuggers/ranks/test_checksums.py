"""Checksums are equal where the bits are, and differ where one element does."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debuggers.ranks.checksums import Checksums, _device_sum, as_numbers, together


def sums(*tensors):
    found = Checksums(tensors)
    assert found.ready()
    return found.resolve()


@given(
    size=st.integers(1, 40),
    place=st.integers(0, 39),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8]),
)
def test_one_element_changes_the_sum_and_the_number(size, place, dtype):
    values = torch.arange(1, size + 1).to(dtype)
    other = values.clone()
    other[place % size] += 1
    if torch.equal(values, other):  # too large for the dtype's precision
        return
    ours, theirs, again = sums(values, other, values.clone())
    assert ours == again
    assert ours != theirs
    assert len({*as_numbers(np.array([ours, theirs, again]))}) == 2


@pytest.mark.parametrize("size", [1, 7, 8, 1001])
def test_a_device_sums_as_the_host_does(size):
    values = torch.randn(size + 1)[1:]
    assert _device_sum(values).item() == sums(values).view(np.int64)[0]


def test_zero_and_its_negative_differ_and_nan_equals_itself():
    positive, negative = sums(torch.zeros(3), -torch.zeros(3))
    assert positive != negative
    broken, again = sums(torch.full((3,), torch.nan), torch.full((3,), torch.nan))
    assert broken == again


def test_numbers_are_exact_in_a_float_and_depend_on_the_order():
    found = sums(torch.randn(5), torch.randn(5), torch.empty(0), torch.ones(2, device="meta"))
    numbers = as_numbers(found)
    assert (numbers == np.floor(numbers)).all()
    assert (numbers < 2**52).all()
    assert together(found) != together(found[::-1])
    assert together(found) == together(found.copy())


def test_a_transposed_tensor_is_that_of_its_values():
    values = torch.randn(3, 4)
    ours, theirs = sums(values.t(), values.t().contiguous())
    assert ours == theirs
