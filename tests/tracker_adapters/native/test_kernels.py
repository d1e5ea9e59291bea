"""The compiled code finds what NumPy finds, with the same bits by all instruction sets, and refuses bad input."""

import kernel_fuzzing
import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.native.extension import kernels, why_not

pytestmark = pytest.mark.skipif(kernels() is None, reason=why_not())
VALUES = np.arange(10.0)
ROW = [0, VALUES.ctypes.data, 10, 1, 0]


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_input_gives_what_numpy_finds(seed):
    done = kernel_fuzzing.fuzz(kernels(), 1, seed)
    assert done["tensors"]


@pytest.mark.parametrize(
    ("segments", "number", "error"),
    [
        ([], 1, "there are none"),
        ([ROW[:4]], 1, "expected five numbers each"),
        ([[1, *ROW[1:]]], 1, "rows must ascend"),
        ([ROW, [2, *ROW[1:]]], 1, "rows must ascend"),
        ([[0, ROW[1], -1, 1, 0]], 1, "a row must have fewer than"),
        ([[0, ROW[1], 2**33, 1, 0]], 1, "a row must have fewer than"),
        ([[0, ROW[1], 2**32, 1, 0]] * 2, 1, "a row must have fewer than"),
        ([[0, 0, 1, 1, 0]], 1, "an address is 0"),
        ([[-1, *ROW[1:]]], 1, "rows must ascend"),
        ([[0, ROW[1], 10, 4, 0]], 1, "a kind must be 0 to 3"),
        ([[0, ROW[1], 10, 3, 0]], 1, "a pair needs what to subtract"),
        ([ROW, [0, ROW[1], 10, 3, ROW[1]]], 1, "a row must be of one kind"),
        ([ROW], 0, "the number of shares must be 1 to 65536"),
    ],
)
def test_segments_that_cannot_be_measured_are_refused(segments, number, error):
    table = np.array(segments, np.int64)
    for call in (lambda: kernels().measure(table, number, 0, 1), lambda: kernels().cut(table, number)):
        with pytest.raises(ValueError, match=error):
            call()


def test_arrays_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="segments have elements of 4 bytes; expected 8"):
        kernels().measure(np.zeros((1, 5), np.int32), 1, 0, 1)
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        kernels().measure(np.array([ROW, ROW], np.int64)[:, ::-1], 1, 0, 1)
    with pytest.raises(TypeError):
        kernels().measure([ROW], 1, 0, 1)
    with pytest.raises(ValueError, match="0 elements"):
        kernels().spread(VALUES.ctypes.data, 0, True, 0, 0, 1)


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        ([0, 1, 2, 5], "an address is 0"),
        ([ROW[1], 2, 2, 5], "a kind must be 0 or 1"),
        ([ROW[1], 1, 0, 5], "rows times columns must be 1 to 2"),
        ([ROW[1], 1, 2, -1], "rows times columns must be 1 to 2"),
        ([ROW[1], 1, 2**62, 4], "rows times columns must be 1 to 2"),
        ([ROW[1], 1, 2], "expected four numbers each"),
    ],
)
def test_samples_that_cannot_be_described_are_refused(sample, error):
    with pytest.raises(ValueError, match=error):
        kernels().samples(np.array([sample], np.int64))
    assert kernels().samples(np.zeros((0, 4), np.int64)) == b""


@pytest.mark.parametrize(
    ("tensor", "share", "error"),
    [
        ([0, 1, 2], 0.5, "an address is 0"),
        ([ROW[1], 2, 2], 0.5, "a kind must be 0 or 1"),
        ([ROW[1], 1, -1], 0.5, "elements must be 0 to 2"),
        ([ROW[1], 1], 0.5, "expected three numbers each"),
        ([ROW[1], 1, 2], 1.0, "shares must be from 0 to below 1"),
        ([ROW[1], 1, 2], np.nan, "shares must be from 0 to below 1"),
    ],
)
def test_elements_that_cannot_be_gathered_are_refused(tensor, share, error):
    with pytest.raises(ValueError, match=error):
        kernels().gather(np.array([tensor], np.int64), np.array([share]))
    assert kernels().gather(np.zeros((0, 3), np.int64), np.array([0.5])) == b""


INTEGERS, BINS = np.array([1], np.int64), np.array([3], np.uint16)


@pytest.mark.parametrize(
    ("order", "starts", "ends", "bins", "error"),
    [
        ([0], [0], [2], [3], "ends must ascend within the bins"),
        ([0], [0], [-1], [3], "ends must ascend within the bins"),
        ([0], [0], [1], [4096], "bins must be below 4096"),
        ([1], [0], [1], [3], "the order must consist of rows"),
        ([0], [1], [1], [3], "starts must ascend"),
        ([0], [0, 0], [1], [3], "starts must ascend"),
        ([0], [0], [1], [3, 4], "as many bins as counts"),
    ],
)
def test_columns_that_are_no_histograms_are_refused(order, starts, ends, bins, error):
    given = [np.array(array, np.int64) for array in (order, starts, ends)]
    with pytest.raises(ValueError, match=error):
        kernels().merge(*given, np.array(bins, np.uint16), INTEGERS)


def test_blobs_need_as_many_tallies_and_moments_as_ends():
    with pytest.raises(ValueError, match="as many tallies and moments as ends"):
        kernels().pack(np.zeros((2, 9), np.int64), np.zeros((1, 4)), INTEGERS, BINS, INTEGERS)


def test_an_instruction_set_of_other_processors_is_refused():
    with pytest.raises(ValueError, match="this processor has no sve9"):
        kernels().use("sve9")
