"""The kernels against the compiled code of the host: counts, bins and extremes equal, sums within the bounds.

Of float32 and narrower, with the mean m: the mean is within 2**-20 of the mean of ``|x - m|`` or 2**-40 of the largest
magnitude, l1 within 2**-20 of itself, the standard deviation within 2**-20 of itself or 2**-29 of the largest
magnitude. Of float64 all of it within 2**-48.
"""

import ctypes
import math
import mmap

import numpy as np
import pytest
import torch
from gpu_on_host import compile_for_host, has_compiler

from debuggers.measurement.device_rows import read
from debuggers.measurement.kernels.gpu import compiling, loading
from debuggers.measurement.kernels.gpu.compiling import THREADS
from debuggers.measurement.kernels.gpu.launching import FOUND, LARGEST_BLOCK, SMALLEST_BLOCK, Kernels, block_of
from debuggers.measurement.kernels.gpu.segments import DTYPES, Segment
from debuggers.measurement.kernels.row_format import WORDS
from debuggers.measurement.measure import Difference, measure

BLOCK = SMALLEST_BLOCK
_MAP_NORESERVE = 0x4000  # of Linux
NARROW = (torch.float32, torch.bfloat16, torch.float16)


def rows_of(device, tensors):
    """The rows in the order of the tensors, or of pairs of which the second is subtracted."""
    pairs = [(tensor, None) if isinstance(tensor, torch.Tensor) else tensor for tensor in tensors]
    pairs = [tuple(value if value is None else value.to(device) for value in pair) for pair in pairs]
    segments = [
        Segment(after.data_ptr(), 0 if before is None else before.data_ptr(), after.numel(), after.dtype)
        for after, before in pairs
    ]
    order = sorted(range(len(pairs)), key=lambda place: segments[place].kind)
    rows = loading.load()[0]([segments[place] for place in order], device).cpu()
    return rows[[order.index(place) for place in range(len(pairs))]].numpy()


def assert_measured(device, tensors):
    ours = read(rows_of(device, tensors))
    as_given = [tensor if isinstance(tensor, torch.Tensor) else Difference(*tensor) for tensor in tensors]
    theirs = measure(as_given).resolve()
    np.testing.assert_array_equal(ours.columns.tallies, theirs.columns.tallies)
    np.testing.assert_array_equal(ours.columns.ends, theirs.columns.ends)
    np.testing.assert_array_equal(ours.columns.bins, theirs.columns.bins)
    np.testing.assert_array_equal(ours.columns.counts, theirs.columns.counts)
    np.testing.assert_array_equal(ours.negative, theirs.negative)
    np.testing.assert_array_equal(ours.positive, theirs.positive)
    np.testing.assert_array_equal(ours.columns.moments[:, :2], theirs.columns.moments[:, :2])
    for tensor, mine, other in zip(tensors, ours, theirs, strict=True):
        assert_sums(tensor, mine, other)


def assert_sums(tensor, mine, other):
    after, before = (tensor, None) if isinstance(tensor, torch.Tensor) else tensor
    wide = torch.float64 if after.dtype is torch.float64 else torch.float32
    values = after.to(wide) if before is None else after.to(wide) - before.to(wide)
    finite = values[torch.isfinite(values)].double()
    if not len(finite):
        assert math.isnan(mine.mean)
        assert (mine.m2, mine.l1) == (0, 0)
        return
    largest = float(finite.abs().max())
    spread = float((finite - other.mean).abs().mean())
    share = 2.0**-48 if wide is torch.float64 else 2.0**-20
    beside = 2.0**-48 if wide is torch.float64 else 2.0**-40
    if not math.isfinite(spread):  # both ends of float64
        spread = largest
    assert mine.mean == pytest.approx(other.mean, rel=0, abs=max(share * spread, beside * largest))
    assert mine.l1 == pytest.approx(other.l1, rel=share)
    if math.isfinite(other.m2):
        beside = 2.0**-48 if wide is torch.float64 else 2.0**-29
        assert mine.std == pytest.approx(other.std, rel=share, abs=beside * largest)
    else:
        assert mine.m2 == math.inf


def normal(size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(dtype, marks=() if dtype is torch.bfloat16 else pytest.mark.slow) for dtype in DTYPES],
)
def test_all_sizes_around_the_blocks(device, dtype):
    sizes = [0, 1, 2, 3, 7, 511, 513, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1, 1000]
    assert_measured(device, [normal(size, size).to(dtype) for size in sizes])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_may_begin_at_any_element(device, dtype):
    values = normal(BLOCK + 9).to(device).to(dtype)
    assert_measured(device, [values[start:].cpu() for start in range(3)])
    rows = rows_of(device, [values[start:] for start in range(1, 9)])
    np.testing.assert_array_equal(rows[3], rows_of(device, [values[4:].clone()])[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_value_of_16_bits(device, dtype):
    assert_measured(device, [torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(dtype)])


VALUES = {
    "a constant": lambda: torch.full((BLOCK + 77,), 0.1),
    "zeros": lambda: torch.zeros(BLOCK + 1),
    "both zeros": lambda: torch.tensor([0.0, -0.0] * 50),
    "half zeros": lambda: torch.relu(normal(5000)),
    "no finite value": lambda: torch.tensor([torch.nan, torch.inf, -torch.inf] * 9),
    "a block of infinity": lambda: torch.cat([torch.full((BLOCK,), -torch.inf), torch.ones(9)]),
    "half NaN": lambda: normal(5000).log(),
    "denormals": lambda: normal(5000) * 1e-42,
    "the least": lambda: torch.tensor([1e-45, -1e-45, 0.0]),
    "squares beyond float32": lambda: normal(5000) * 1e30,
    "sums beyond float32": lambda: torch.full((2 * BLOCK,), 3.4e38),
    "both ends of float32": lambda: torch.tensor([3.4028234663852886e38, -3.4028234663852886e38] * 2100),
    "squares that vanish": lambda: normal(5000) * 1e-30,
    "one outlier": lambda: torch.cat([torch.tensor([1e9]), normal(7000)]),
    "a huge and a tiny one": lambda: torch.tensor([1e38, 1e-38]),
    "a large mean": lambda: 1e6 + normal(5000),
    "a large mean and little spread": lambda: 1e6 + 1e-1 * normal(9000),
    "all magnitudes": lambda: normal(9000) * torch.exp2(normal(9000, 1) * 40),
    "one sign": lambda: -normal(9000).abs(),
    "from one block to the other": lambda: torch.cat([torch.full((BLOCK,), 1e-20), torch.full((BLOCK,), -1e20)]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values(device, kind):
    values = VALUES[kind]()
    assert_measured(device, [values.to(dtype) for dtype in DTYPES])


def test_values_that_only_float64_has(device):
    kinds = [1e300, -1e300, 1e-300, -1e-50, 1e39, 1e-46, 0.0, torch.nan, 5e-324]
    ends = torch.tensor([1.7e308, -1.7e308], dtype=torch.float64)
    tensors = [
        torch.tensor(kinds, dtype=torch.float64),
        ends.repeat(3000),
        ends.repeat_interleave(BLOCK),
        normal(5000) * 1e200,
        normal(5000) * 1e-200,
        1e6 + 1e-3 * normal(9001),
        torch.full((9000,), 5e-324, dtype=torch.float64),
        torch.full((9000,), 1.7e308, dtype=torch.float64),
    ]
    assert_measured(device, tensors)


def test_a_constant_has_no_spread(device):
    table = read(rows_of(device, [torch.full((3 * BLOCK + 5,), 0.1).to(dtype) for dtype in DTYPES]))
    assert table.std.tolist() == [0.0] * len(DTYPES)
    assert table.moment("mean").tolist() == [float(torch.tensor(0.1).to(dtype)) for dtype in DTYPES]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_differences(device, dtype):
    after, before = normal(BLOCK + 3).to(dtype), normal(BLOCK + 3, 1).to(dtype)
    before[5], after[6], before[7] = torch.nan, torch.inf, -torch.inf
    assert_measured(device, [(after, before), after, (after[1:], before[:-1]), (after, after)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_products(device, dtype):
    values, factor = (normal(BLOCK + 3) * 1000).to(dtype), torch.tensor(1 / 3000, dtype=torch.float32)
    values[7] = torch.nan
    tensor, on_device = values.to(device), factor.to(device)
    segment = Segment(tensor.data_ptr(), 0, tensor.numel(), dtype, on_device.data_ptr())
    row = loading.load()[0]([segment], device).cpu().numpy()
    wide = values if dtype is torch.float64 else values.float()
    np.testing.assert_array_equal(row, rows_of(device, [wide * factor]))


def test_tensors_of_all_kinds_at_once_are_measured_as_alone(device):
    tensors = [normal(size, size).to(DTYPES[size % 4]) for size in (3, 5000, 0, 6, 4097, 1, 7, 8, 0)]
    tensors += [(tensors[1], tensors[1] * 0.5)]
    together = rows_of(device, tensors)
    for tensor, row in zip(tensors, together, strict=True):
        np.testing.assert_array_equal(rows_of(device, [tensor])[0], row)


def test_the_same_tensors_give_the_same_bits(device):
    tensors = [normal(20_000).to(dtype) for dtype in DTYPES]
    np.testing.assert_array_equal(rows_of(device, tensors), rows_of(device, tensors))


@pytest.mark.cuda
@pytest.mark.skipif(not has_compiler, reason="needs gcc, which compiles the kernels for the host")
def test_the_host_finds_the_same_bits(device):
    host = Kernels(compile_for_host)
    for dtype in DTYPES:
        values = [normal(size, size).to(dtype) for size in (1, 1000, 3 * BLOCK + 5)]
        segments = [Segment(one.data_ptr(), 0, one.numel(), dtype) for one in values]
        np.testing.assert_array_equal(rows_of(device, values), host.measure(segments, torch.device("cpu")).numpy())


def test_more_blocks_are_joined_than_there_are_threads(device):
    assert THREADS < 1301
    blocks = (normal(1301 * 40).reshape(1301, 40) * 3 + normal(1301)[:, None] + 1000).numpy()
    found = np.zeros((1304, FOUND))
    found[:3] = np.nan  # of another tensor
    mine, exponent = found[3:], 9
    mine[:, 0], mine[:, 1], mine[:, 2], mine[:, 3] = 40, blocks.min(axis=1), blocks.max(axis=1), exponent
    scaled = blocks * 2.0**-exponent
    mine[:, 4] = scaled[:, 0]
    difference = scaled - scaled[:, :1]
    mine[:, 5], mine[:, 6] = difference.sum(axis=1), np.square(difference).sum(axis=1)
    mine[:, 7] = np.abs(scaled).sum(axis=1)
    mine[700] = [0, np.inf, -np.inf, 0, 0, 0, 0, 0]
    table = torch.tensor([0, 0, 1301 * BLOCK - 5, BLOCK, 3, 0], device=device)
    rows, found = torch.zeros(1, WORDS, dtype=torch.int32, device=device), torch.from_numpy(found).to(device)
    start = compiling.compile_kernel("join", {}, device)
    start(1, table.data_ptr(), rows.data_ptr(), found.data_ptr())
    low, high, mean, m2, l1 = rows[0, -10:].cpu().view(torch.float64).tolist()
    rest = np.delete(blocks, 700, axis=0)
    assert (low, high) == (rest.min(), rest.max())
    assert mean == pytest.approx(rest.mean(), rel=1e-14)
    assert m2 == pytest.approx(np.square(rest - rest.mean()).sum(), rel=1e-12)
    assert l1 == pytest.approx(np.abs(rest).sum(), rel=1e-13)


def test_few_launches_however_many_tensors(device):
    if device.type != "cuda":
        pytest.skip("needs a CUDA device")
    tensors = [torch.randn(100 + size, device=device).to(DTYPES[size % 2]) for size in range(300)]
    measure(tensors).resolve()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        measure(tensors).resolve()
    assert sum(event.count for event in profile.key_averages() if event.device_type.name == "CUDA") <= 20


def test_elements_beyond_2_to_the_31_are_found(device):
    """The last blocks of a tensor of 2**31 elements, in memory of which only their pages exist."""
    if device.type == "cuda":
        pytest.skip("reads host memory, of which most does not exist")
    length, blocks = 2**31, 2**31 // LARGEST_BLOCK
    assert block_of(length) == LARGEST_BLOCK
    memory = mmap.mmap(-1, 4 * length + 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    values = np.frombuffer(memory, np.float32)
    values[length - 3], values[length // 2], values[length] = 5.0, -7.0, torch.nan
    table = torch.tensor([address, 0, length, LARGEST_BLOCK, 0, 0])
    rows, partials = torch.zeros(1, WORDS, dtype=torch.int32), torch.zeros(blocks, FOUND).double()
    owners = torch.zeros(blocks, dtype=torch.int64)
    constants = {"KIND": 0, "SUBTRACT": 0, "SCALE": 0}
    start = compiling.compile_kernel("measure", constants, device)
    for first in (blocks // 2, blocks - 1):
        start(1, table.data_ptr(), owners.data_ptr(), rows.data_ptr(), partials.data_ptr(), first)
    summary = read(rows.numpy())[0]
    assert (summary.count, summary.nan, summary.positive, summary.negative) == (2 * LARGEST_BLOCK, 0, 1, 1)
    np.testing.assert_array_equal(partials[blocks - 1, :3], [LARGEST_BLOCK, 0, 5])
    np.testing.assert_array_equal(partials[blocks // 2, :3], [LARGEST_BLOCK, -7, 0])
