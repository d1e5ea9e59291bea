"""Arrays of a page share blocks of memory, and overlap nowhere."""

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from waiting import in_threads

from debuggers.host_arrays.block_memory import BLOCK_BYTES, PageMemory

DTYPES = ["?", "u1", "<f4", ">f8", "c16", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
shapes = st.lists(st.integers(0, 50), max_size=3).map(tuple)


@given(st.lists(st.tuples(shapes, st.sampled_from(DTYPES)), max_size=20))
def test_arrays_are_aligned_and_do_not_overlap(wanted):
    memory = PageMemory()
    arrays = [memory.empty(shape, dtype) for shape, dtype in wanted]
    for number, array in enumerate(arrays):
        array.reshape(-1).view(np.uint8)[:] = number
    for number, ((shape, dtype), array) in enumerate(zip(wanted, arrays, strict=True)):
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert (array.reshape(-1).view(np.uint8) == number).all()


def test_small_arrays_share_a_block_and_large_ones_have_their_own_memory():
    memory = PageMemory()
    small, other, large = memory.empty((3,), "f4"), memory.empty((3,), "f4"), memory.empty((BLOCK_BYTES,), "u1")
    assert small.base is not None
    assert small.base is other.base
    assert large.base is None


def test_a_block_that_nobody_uses_is_dropped():
    memory = PageMemory()
    first = memory.empty((1000,), "u1")
    address = first.ctypes.data
    assert memory.empty((1000,), "u1").ctypes.data == address + 1024
    del first
    assert memory._block() is None


def test_a_full_block_is_followed_by_another():
    memory = PageMemory()
    arrays = [memory.empty((BLOCK_BYTES // 8,), "u1") for _ in range(9)]
    assert len({id(array.base) for array in arrays}) == 2


def test_threads_get_memory_of_their_own():
    memory, arrays = PageMemory(), []

    def reserve(number):
        for _ in range(200):
            array = memory.empty((100,), "u1")
            array[:] = number
            arrays.append((number, array))

    in_threads(reserve, range(8))
    assert len(arrays) == 1600
    assert all((array == number).all() for number, array in arrays)
