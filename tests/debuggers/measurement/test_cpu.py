"""Threads share the elements of a call: counts are those of one thread, and the split depends on the lengths alone."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.histograms.layout import MOMENTS
from tracker_adapters.native.extension import kernels, why_not

from debuggers.measurement import cpu as measurement_cpu
from debuggers.measurement.measure import Difference, measure

pytestmark = pytest.mark.skipif(kernels() is None, reason=why_not())
BLOCK = 2048  # of the compiled code; shares are cut between blocks
MIN_SHARE = 2 * BLOCK

# The fixture below is the same for all examples.
SETTINGS = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LENGTHS = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 60_000)), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch):
    monkeypatch.setattr(measurement_cpu, "_MIN_SHARE", MIN_SHARE)
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


def cut(lengths, number):
    """The shares of float32 tensors that lie one after the other, as lists of (row, address, length, ...)."""
    starts = 4 * np.cumsum([0, *lengths[:-1]])
    segments = np.array([[row, starts[row], length, 0, 0] for row, length in enumerate(lengths)], np.int64)
    segments[:, 1] += 1 << 32  # an address of 0 is refused
    shares, pieces, tensors = (np.frombuffer(part, np.int64) for part in kernels().cut(segments, number))
    firsts, pieces = shares[::3].tolist(), pieces.reshape(-1, 5) - [0, 1 << 32, 0, 0, 0]
    return [pieces[first:following].tolist() for first, following in pairwise(firsts)], tensors.tolist()


@SETTINGS
@given(lengths=LENGTHS, number=st.integers(1, 6))
def test_shares_hold_every_element_once_and_are_nearly_equal(lengths, number):
    number = max(1, min(number, sum(lengths) // MIN_SHARE))
    shares, tensors = cut(lengths, number)
    pieces = [piece for share in shares for piece in share]
    assert pieces[0][1] == 0
    for (part, address, length, *_), (next_part, start, *_) in pairwise(pieces):
        assert address + 4 * length == start
        assert next_part == part + 1
    assert pieces[-1][1] + 4 * pieces[-1][2] == 4 * sum(lengths)
    assert sorted(set(tensors)) == list(range(len(lengths)))
    fair = sum(lengths) / number
    assert max(sum(piece[2] for piece in share) for share in shares) <= fair * 1.25 + BLOCK + 1


def test_a_tensor_is_not_cut_where_shares_are_nearly_equal_without():
    shares, tensors = cut([52_000, 48_000], 2)
    assert tensors == [0, 1]
    assert [len(share) for share in shares] == [1, 1]
    assert cut([80_000, 20_000], 2)[1] == [0, 0, 1]


@pytest.mark.slow
def test_measuring_runs_in_the_threads_that_torch_has(tmp_path):
    script = tmp_path / "count.py"
    script.write_text(
        "import os, torch\n"
        "from debuggers.measurement.measure import measure, prepare\n"
        "torch.set_num_threads(4)\n"
        "prepare()\n"
        "tensor = torch.ones(1 << 20)\n"
        "tensor + tensor\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "assert measure([tensor]).resolve().tally('count')[0] == 1 << 20\n"
        "assert len(os.listdir('/proc/self/task')) == before\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=120)


@pytest.mark.slow
def test_a_forked_process_measures_alone(tmp_path):
    script = tmp_path / "fork.py"
    script.write_text(
        "import os, torch\n"
        "from debuggers.measurement.measure import measure\n"
        "torch.set_num_threads(4)\n"
        "tensor = torch.ones(1 << 20)\n"
        "measure([tensor])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(int(measure([tensor]).resolve().moment('max')[0] != 1))\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=120)


@pytest.mark.slow
def test_a_forked_process_measures_alone_with_torch_operations(tmp_path):
    """As it does where there is no compiled code."""
    script = tmp_path / "fork.py"
    script.write_text(
        "import os, signal, torch\n"
        "from debuggers.measurement.batches import DeviceBatch\n"
        "torch.set_num_threads(2)\n"
        "tensors = [torch.ones(length) for length in [8, 0, 100000, *[64] * 50]]\n"
        "tensors[2] + 1\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    batch = DeviceBatch(torch.device('cpu'))\n"
        "    for index, tensor in enumerate(tensors):\n"
        "        batch.add(index, tensor)\n"
        "    batch.take()\n"
        "    os._exit(torch.get_num_threads() - 2)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=120)


@SETTINGS
@given(lengths=LENGTHS, threads=st.integers(1, 3), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_difference_is_measured_as_its_tensor_would_be(lengths, threads, dtype):
    pairs = [(tensor, tensor.flip(0)) for tensor in tensors_of(lengths, dtype)]
    differences = measured([Difference(new, old) for new, old in pairs], threads)
    tensors = measured([new - old for new, old in pairs], threads)
    assert_same_but_for_last_bits(tensors, differences)
    np.testing.assert_array_equal(tensors.columns.moments, differences.columns.moments)


def test_a_difference_of_huge_values_has_the_moments_of_the_wide_formula():
    after = torch.tensor([1e308, -1e308, 5e307], dtype=torch.float64)
    before = torch.tensor([5e307, 5e307, float("nan")], dtype=torch.float64)
    table = measured([Difference(after, before)], 1)
    expected = measured([after - before], 1)
    assert table.tally("nan")[0] == 1
    np.testing.assert_array_equal(expected.columns.moments, table.columns.moments)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int32, torch.float32])
def test_a_difference_of_other_dtypes_is_that_of_torch(dtype):
    after, before = torch.arange(9).to(dtype), torch.ones(9).to(dtype)
    assert measured([Difference(after, before)], 1)[0].l1 == measured([after - before], 1)[0].l1


def test_tensors_shared_between_threads_keep_their_order():
    tensors = tensors_of([5000, 1, 2, 60_000, 0, 7, 9000])
    table = measured([tensors[0], tensors[1].bfloat16(), *tensors[2:]], 4)
    np.testing.assert_array_equal([5000, 1, 2, 60_000, 0, 7, 9000], table.tally("count"))
    for row in (0, 2, 3, 5, 6):
        assert table.moment("max")[row] == float(tensors[row].max())


DTYPES = [torch.float32, torch.float64, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_differences_measured_along_with_their_tensors_are_those_measured_alone(dtype, threads):
    generator = torch.Generator().manual_seed(0)
    lengths = [5000, 1, 0, 70_001]
    after = [torch.randn(length, generator=generator).to(dtype) for length in lengths]
    before = [values.flip(0) * 0.5 for values in after]
    other = torch.randn(3, generator=generator)
    changes = [Difference(*pair) for pair in zip(after, before, strict=True)]
    # In another order, one of a tensor that is not measured itself, and one tensor with two differences.
    tensors = [*after[:3], other, changes[3], *reversed(changes[:3]), Difference(after[0], after[0])]
    together = measured(tensors, threads)
    alone = [measured([tensor], 1) for tensor in tensors]
    assert_same_but_for_last_bits(type(together).concatenate(alone), together)
    if threads == 1:
        np.testing.assert_array_equal(np.concatenate([one.columns.moments for one in alone]), together.columns.moments)
