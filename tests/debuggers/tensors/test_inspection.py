"""One tensor at four levels of health: whatever it is made of, the result equals a float64 reference."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.distributed
import torch.distributed.device_mesh
import torch.distributed.tensor
from tracker_adapters.artifacts import Histogram
from tracker_adapters.errors import ArtifactError

from debuggers.tensors.health import any_non_finite, non_finite_counts
from debuggers.tensors.info import PERCENTILES, HealthLevel
from debuggers.tensors.inspector import TensorInspector

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2]


def inspect(value, level=HealthLevel.FULL_TENSOR):
    inspector = TensorInspector(level=level)
    return inspector.get_tensor_info(inspector.inspect_tensor(value, "x"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("values", [[0.0, 1, -2], [math.nan, 1, 2], [1, math.inf, 1], [-math.inf], [math.nan] * 3, []])
def test_the_cheap_levels_find_what_is_not_finite(dtype, values):
    tensor = torch.tensor(values).to(dtype)
    expected = [sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf)]
    assert any_non_finite("x", tensor).tolist() == [any(expected)]
    assert non_finite_counts("x", tensor).tolist() == expected


@pytest.mark.parametrize("dtype", FLOATS[:4])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_element_among_many_is_found_wherever_it_is(dtype, value):
    for place in (0, 1, 7, 8, 31, 999, 1000):
        tensor = torch.ones(1001, dtype=dtype)
        tensor[place] = value
        assert any_non_finite("x", tensor).tolist() == [1]
        assert non_finite_counts("x", tensor[::1001]).sum() == (place == 0)


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.tensor([1, 2]), id="int"),
        pytest.param(torch.tensor([True]), id="bool"),
        pytest.param(torch.tensor([3.4e38, 3.4e38]), id="the sum would overflow"),
        pytest.param(torch.tensor([1.7e308, -1.7e308], dtype=torch.float64), id="ends of float64"),
        pytest.param(torch.tensor([3e38 + 3e38j]), id="the modulus exceeds float32"),
    ],
)
def test_what_is_finite_stays_so(tensor):
    assert (any_non_finite("x", tensor).tolist(), non_finite_counts("x", tensor).tolist()) == ([0], [0, 0, 0])


def test_each_level_knows_what_it_says():
    values = torch.tensor([math.nan, math.inf, -math.inf, -math.inf, 0, 0, 0, 1, -1, -2])
    curt, concise, full, whole = (inspect(values, level) for level in HealthLevel)
    for info in (curt, concise, full, whole):
        assert (info.quality.elements, info.quality.has_non_finite) == (10, True)
    assert (curt.quality.nan, curt.quality.nan_fraction, curt.quality.sparsity) == (None, None, None)
    for info in (concise, full, whole):
        assert (info.quality.nan, info.quality.pos_inf, info.quality.neg_inf) == (1, 1, 2)
        assert info.quality.nan_fraction == 0.1
    assert (concise.quality.zero, concise.quality.sparsity, concise.distribution, concise.outliers) == (None,) * 4
    assert (concise.stats, concise.percentiles) == (None, None)
    for info in (full, whole):
        assert (info.quality.zero, info.quality.negative, info.quality.positive) == (3, 2, 1)
        assert info.quality.sparsity == 0.3
    assert [info.values is None for info in (curt, concise, full, whole)] == [True, True, True, False]
    np.testing.assert_array_equal(values.numpy(), whole.values)


def test_statistics_equal_a_float64_reference():
    tensor = torch.randn(50, 40) * 3 + 1
    values = tensor.double().numpy()
    info = inspect(tensor)
    stats = info.stats
    assert (stats.count, stats.min, stats.max) == (2000, values.min(), values.max())
    expected = [values.mean(), values.std(), np.abs(values).sum(), np.linalg.norm(values)]
    assert [stats.mean, stats.std, stats.l1, stats.l2] == pytest.approx(expected, rel=1e-9)
    exact = np.percentile(values, PERCENTILES, method="lower")
    np.testing.assert_allclose(list(info.percentiles.values()), exact, rtol=0.0625)
    low, high = stats.near_zero_fraction(0.1)
    assert low <= (np.abs(values) <= 0.1).mean() <= high
    expected = Histogram.from_values("x", tensor, step=0)
    np.testing.assert_array_equal(expected.counts, info.distribution.counts)
    assert (info.distribution.name, info.distribution.time_ns) == ("x", info.time_ns)
    below, above = (np.quantile(values, share) for share in (0.25, 0.75))
    reach = 1.5 * (above - below)
    assert info.outliers.below[0] <= (values < below - reach).sum() <= info.outliers.below[1]
    assert info.outliers.above[0] <= (values > above + reach).sum() <= info.outliers.above[1]


ARRAYS = [
    pytest.param(np.arange(12.0).reshape(3, 4), id="float64"),
    pytest.param(np.arange(12, dtype=np.float16)[::-2], id="negative strides"),
    pytest.param(np.arange(12, dtype=">f4").reshape(3, 4).T, id="foreign byte order"),
    pytest.param(np.arange(3, dtype=np.longdouble), id="extended precision"),
    pytest.param(np.array([1 + 2j, -3]), id="complex"),
    pytest.param(np.frombuffer(b"abcd", np.uint8), id="read-only"),
    pytest.param(np.arange(3, dtype=np.uint16), id="uint16"),
    pytest.param(np.array([True, False]), id="bool"),
    pytest.param(np.array([1, 2, 448], ml_dtypes.float8_e4m3fn), id="float8"),
    pytest.param(np.float32(2), id="a NumPy number"),
    pytest.param([[1, 2.5], [3, 4]], id="a list"),
    pytest.param(3, id="a number"),
    pytest.param(np.empty((0, 3)), id="empty"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", ARRAYS)
def test_arrays_lists_and_numbers(values):
    info = inspect(values)
    array = np.asarray(values)
    np.testing.assert_array_equal(array.astype(info.values.dtype), info.values)
    assert (info.shape, info.dtype, info.device) == (array.shape, array.dtype.name, "cpu")
    wide = np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)
    assert (info.stats.count, info.stats.l1) == (wide.size, pytest.approx(np.abs(wide).sum()))


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (torch.randn(3, 4, requires_grad=True) * 2, "float32"),
        (torch.randn(3, 4).bfloat16().T, "bfloat16"),
        (torch.randn(5).to(torch.float8_e5m2), "float8_e5m2"),
        (torch.randn(4, dtype=torch.complex64).conj(), "complex64"),
        (torch.tensor(True), "bool"),
        (torch.tensor(2.5), "float32"),
        (torch.empty(2, 0), "float32"),
        (torch.nn.Parameter(torch.ones(2)), "float32"),
    ],
)
def test_tensors_of_any_kind(tensor, dtype):
    info = inspect(tensor)
    assert (info.dtype, info.shape, info.quality.elements) == (dtype, tuple(tensor.shape), tensor.numel())
    plain = tensor.detach().resolve_conj()
    expected = plain.numpy() if dtype not in ("bfloat16", "float8_e5m2") else plain.double().numpy()
    np.testing.assert_array_equal(expected, info.values.astype(expected.dtype))


def test_a_sparse_tensor_counts_the_zeros_that_it_leaves_out():
    info = inspect(torch.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, -3.0], (10,)))
    assert (info.quality.elements, info.quality.zero, info.quality.sparsity) == (10, 8, 0.8)
    assert (info.stats.count, info.stats.l1) == (2, 6)
    assert info.values.tolist() == [3, -3] + [0] * 8


def test_a_copy_does_not_follow_the_tensor_and_cannot_be_changed():
    tensor, array = torch.ones(3), np.ones(3)
    infos = [inspect(tensor), inspect(array)]
    tensor.zero_()
    array[:] = 0
    for info in infos:
        assert info.values.tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="read-only"):
            info.values[0] = 5


def test_a_view_takes_the_memory_that_it_keeps_alive():
    assert inspect(torch.ones(100)[:1]).memory_bytes == 400
    assert inspect(np.ones(100)[:1]).memory_bytes == 800


def test_of_a_distributed_tensor_this_ranks_shard_counts(process_group):
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    values = torch.randn(8, 2)
    info = inspect(torch.distributed.tensor.distribute_tensor(values, mesh))
    assert (info.shape, info.quality.elements, info.memory_bytes) == ((8, 2), 16, 64)
    assert info.stats.local_shard
    np.testing.assert_array_equal(values.numpy(), info.values)


@pytest.mark.parametrize("level", HealthLevel)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "got NoneType None; expected a tensor or an array"),
        ("text", "got str 'text'; expected a tensor or an array"),
        ({"a": 1}, r"got dict \{'a': 1\}; expected a tensor"),
        (np.array([None]), "dtype object"),
        (np.array(["a"]), "got ndarray array"),
        ([[1], [1, 2]], "is not an array of numbers"),
        (object(), "dtype object"),
        (torch.ones(2, device="meta"), "meta tensor"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
    ],
)
def test_what_holds_no_numbers_is_named_and_refused(level, value, message):
    with pytest.raises(ArtifactError, match=f"tensor 'fc1.weight': .*{message}"):
        TensorInspector(level=level).inspect_tensor(value, "fc1.weight")
