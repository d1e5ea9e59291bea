"""Threads share the elements of a call: counts are those of one thread, and the split depends on the lengths alone."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.histogram_columns import MOMENTS

from debuggers.measurement import measure

measurement_cpu = pytest.importorskip("debuggers.measurement_cpu", exc_type=ImportError)

# The fixture below is the same for all examples.
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LENGTHS = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 30_000)), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch):
    monkeypatch.setattr(measurement_cpu, "_MIN_SHARE", 1000)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def measured(tensors, threads):
    torch.set_num_threads(threads)
    return measure(tensors).resolve()


def tensors_of(lengths, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randn(length, generator=generator, dtype=dtype) - 0.1 for length in lengths]


def assert_same_but_for_last_bits(expected, ours):
    for key in ("tallies", "ends", "bins", "counts"):
        np.testing.assert_array_equal(getattr(expected.columns, key), getattr(ours.columns, key))
    np.testing.assert_array_equal(expected.negative, ours.negative)
    for name in MOMENTS:
        np.testing.assert_allclose(ours.moment(name), expected.moment(name), rtol=1e-9 if name == "mean" else 1e-12)
    np.testing.assert_allclose(ours.l1, expected.l1, rtol=1e-12)


@SETTINGS
@given(lengths=LENGTHS, threads=st.integers(2, 5), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_threads_measure_what_one_thread_does(lengths, threads, dtype):
    tensors = tensors_of(lengths, dtype)
    assert_same_but_for_last_bits(measured(tensors, 1), measured(tensors, threads))


def test_the_same_lengths_give_the_same_bits():
    tensors = tensors_of([70_001, 3, 0, 12_345])
    first, second = measured(tensors, 3), measured([tensor.clone() for tensor in tensors], 3)
    np.testing.assert_array_equal(first.columns.moments, second.columns.moments)


@SETTINGS
@given(lengths=LENGTHS.filter(lambda lengths: sum(lengths) >= 6), number=st.integers(1, 6))
def test_shares_hold_every_element_once_and_are_equal_to_a_block(lengths, number):
    starts = 4 * np.cumsum([0, *lengths[:-1]])
    segments = np.array([[row, starts[row], length, 0] for row, length in enumerate(lengths)], np.int64)
    shares = measurement_cpu._cut(segments, number)
    covered = [
        (first + row, address, address + 4 * length)
        for first, share in shares
        for row, address, length, _ in share.tolist()
    ]
    assert covered[0][1] == 0
    for (row, _, end), (next_row, start, _) in pairwise(covered):
        assert start == end
        assert next_row in {row, row + 1}
    assert covered[-1][2] == 4 * sum(lengths)
    sizes = [int(share[:, 2].sum()) for _, share in shares]
    assert max(sizes) <= sum(lengths) / number + 2048 * number


def test_threads_end_with_the_call():
    before = threading.active_count()
    measured(tensors_of([50_000]), 4)
    assert threading.active_count() == before
    assert len(measurement_cpu._cut(np.array([[0, 0, 50_000, 0]]), 4)) == 4


def test_a_small_call_starts_no_thread(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(threading, "Thread", None)
    measured(tensors_of([1000] * 50), 2)


def test_tensors_shared_between_threads_keep_their_order():
    tensors = tensors_of([5000, 1, 2, 60_000, 0, 7, 9000])
    table = measured([tensors[0], tensors[1].bfloat16(), *tensors[2:]], 4)
    np.testing.assert_array_equal([5000, 1, 2, 60_000, 0, 7, 9000], table.tally("count"))
    for row in (0, 2, 3, 5, 6):
        assert table.moment("max")[row] == float(tensors[row].max())
