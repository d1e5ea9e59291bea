"""A measurement equals a float64 reference on any values, and its histogram is that of ``Histogram.from_values``.

The reference of sums is ``math.fsum``. Tolerances: counts, histogram, min and max are exact; the mean is within 1e-12
of the largest magnitude, l1 and l2 within 1e-12 of themselves, and the standard deviation within 1e-9 of itself or
1e-15 of the largest magnitude.
"""

import math

import numpy as np
import pytest
import torch
import torch.distributed
import torch.distributed.device_mesh
import torch.distributed.tensor
from drawn_examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from tracker_adapters.artifacts import Histogram
from tracker_adapters.errors import ArtifactError
from tracker_adapters.native.extension import kernels, why_not

from debuggers.measurement import choosing
from debuggers.measurement import plain_values as measurement_values
from debuggers.measurement.measure import Difference, measure, summarize

HISTOGRAM_COUNTS = (
    "count", "nan", "pos_inf", "neg_inf", "zero", "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 65504.0, 65520.0]
FLOATS = {
    torch.float64: st.one_of(st.sampled_from([*SPECIAL, 1e-300, -1e-50, 1e300]), st.floats()),
    torch.float32: st.one_of(st.sampled_from(SPECIAL), st.floats(width=32)),
}

# The fixture below is the same for all examples.
SETTINGS = settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["kernel", "torch"], autouse=True)
def way(request, monkeypatch):
    """Each test holds for the compiled kernel and for torch operations alone."""
    if request.param == "torch":
        monkeypatch.setattr(choosing, "is_usable", lambda: False)
    elif kernels() is None:
        pytest.skip(why_not())
    return request.param


def assert_measured(summary, values):
    """``values``: the same elements as a float32 or float64 tensor."""
    assert_moments(summary, assert_counted(summary, values))


def assert_counted(summary, values):
    """What is exact on every device; returns the finite values."""
    expected = Histogram.from_values("x", values, step=3, time_ns=7)
    ours = summary.histogram("x", 3, time_ns=7)
    for key in HISTOGRAM_COUNTS:
        assert getattr(expected, key) == getattr(ours, key), key
    np.testing.assert_array_equal(expected.bins, ours.bins)
    np.testing.assert_array_equal(expected.counts, ours.counts)
    np.testing.assert_array_equal([expected.min, expected.max], [ours.min, ours.max])
    finite = [float(value) for value in values.flatten().double().tolist() if math.isfinite(value)]
    assert sum(value > 0 for value in finite) == summary.positive
    assert sum(value < 0 for value in finite) == summary.negative
    assert summary.count == summary.finite_count + summary.nan + summary.pos_inf + summary.neg_inf
    return finite


def assert_moments(summary, finite):
    if not finite:
        assert math.isnan(summary.mean)
        assert math.isnan(summary.std)
        assert (summary.l1, summary.l2, summary.m2) == (0, 0, 0)
        return
    largest = max(abs(value) for value in finite)
    mean = math.fsum(value / len(finite) for value in finite)
    assert summary.mean == pytest.approx(mean, rel=0, abs=1e-12 * largest)
    if largest > 1e150:  # squares leave float64
        return
    assert summary.l1 == pytest.approx(math.fsum(abs(value) for value in finite), rel=1e-12)
    if largest > 1e-140:
        assert summary.l2 == pytest.approx(math.sqrt(math.fsum(value * value for value in finite)), rel=1e-12)
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))
        assert summary.std == pytest.approx(std, rel=1e-9, abs=1e-15 * largest)


@pytest.mark.parametrize("dtype", list(FLOATS))
@SETTINGS
@given(data=st.data())
def test_any_values_are_measured_exactly(way, dtype, data):
    values = torch.tensor(data.draw(st.lists(FLOATS[dtype], max_size=40)), dtype=dtype)
    assert_measured(summarize([values])[0], values)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(1e6 + 1e-3 * torch.randn(100_003, dtype=torch.float64), id="mean 1e6, std 1e-3"),
        pytest.param(torch.cat([torch.full((1,), 1e9), torch.randn(70_001)]), id="first element is an outlier"),
        pytest.param(torch.randn(50_000) * 1e-42, id="denormals"),
        pytest.param(torch.full((20_000,), 0.1), id="a constant"),
        pytest.param(torch.relu(torch.randn(30_000)), id="half zeros"),
        pytest.param(torch.randn(10_000).log(), id="half NaN"),
        pytest.param(torch.cat([torch.full((5000,), -torch.inf), torch.ones(5000)]), id="whole blocks of infinity"),
        pytest.param(torch.tensor([1.7e308, -1.7e308] * 3000, dtype=torch.float64), id="both ends of float64"),
        pytest.param(torch.tensor([1.5e308, 1.5e308, 0, 0, 0], dtype=torch.float64), id="sums overflow, the mean not"),
        pytest.param(torch.full((300_000,), 0.1, dtype=torch.float64), id="a constant in float64"),
        pytest.param(-torch.rand(5000) - 1, id="negative only"),
    ],
)
def test_difficult_distributions(values):
    assert_measured(summarize([values])[0], values)


def test_a_constant_has_no_spread():
    assert summarize([torch.full((100_000,), 0.1)])[0].std == 0


def test_only_the_squares_overflow_at_the_ends_of_float64():
    summary = summarize([torch.tensor([1.7e308, -1.7e308], dtype=torch.float64)])[0]
    assert (summary.mean, summary.m2, summary.l1, summary.l2) == (0, math.inf, math.inf, math.inf)


@pytest.mark.slow
def test_more_elements_than_float32_can_count(way):
    if way == "torch":
        pytest.skip("the kernel's counters are narrow, those of torch are not")
    values = torch.ones(2**24 + 1)
    values[0] = 3
    summary = summarize([values])[0]
    assert (summary.positive, int(summary.counts.sum()), summary.l1) == (2**24 + 1, 2**24 + 1, 2**24 + 3)
    assert summary.mean == pytest.approx((2**24 + 3) / (2**24 + 1), rel=1e-15)
    assert summary.m2 == pytest.approx(4 * 2**24 / (2**24 + 1), rel=1e-9)


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
NARROW = [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_count_by_their_value(dtype):
    bits = torch.arange(2 ** (8 * dtype.itemsize), dtype=torch.int32)
    values = bits.to(torch.uint8 if dtype.itemsize == 1 else torch.uint16).view(dtype)  # every value that it has
    assert_measured(summarize([values])[0], values.float())


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
def test_integers_and_bools_count_by_their_value(dtype):
    limits = torch.iinfo(dtype) if dtype is not torch.bool else None
    values = torch.tensor([0, 1, 1, 100] if limits is None else [0, 1, 100, limits.min, limits.max], dtype=dtype)
    assert_measured(summarize([values])[0], values.double())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_values_count_by_their_modulus(dtype):
    values = torch.tensor([3 + 4j, 0, -2, complex(math.inf, 1), complex(math.nan, 0), 3e38 + 3e38j], dtype=dtype).conj()
    assert_measured(summarize([values])[0], values.to(torch.complex128).abs())


def sparse(layout):
    dense = torch.tensor([[0.0, 2.0], [-3.0, 0.0]])
    return dense.to_sparse_coo() if layout is torch.sparse_coo else dense.to_sparse_csr()


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_tensor_counts_its_stored_values(layout):
    assert_measured(summarize([sparse(layout)])[0], torch.tensor([2.0, -3.0]))


def test_duplicates_of_a_sparse_tensor_are_summed():
    tensor = torch.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, -3.0], (2,))
    assert_measured(summarize([tensor])[0], torch.tensor([3.0, -3.0]))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(torch.randn(7, 50).T, id="transposed"),
        pytest.param(torch.randn(8, 50)[::2, 1::3], id="strided"),
        pytest.param(torch.randn(5, 1).expand(5, 30), id="expanded"),
        pytest.param(torch.ones(()).expand(4, 3), id="expanded from one element"),
        pytest.param(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), id="channels last"),
        pytest.param(torch.randn(100)[37:], id="offset"),
        pytest.param(torch.randn(6, dtype=torch.complex64).conj().imag, id="lazily negated"),
        pytest.param(torch.tensor(2.5), id="0-d"),
        pytest.param(torch.empty(3, 0), id="empty"),
        pytest.param(torch.nn.Parameter(torch.randn(4, 4)), id="parameter"),
        pytest.param(torch.randn(4, requires_grad=True) * 2, id="with a graph"),
    ],
)
def test_layouts(values):
    assert_measured(summarize([values])[0], values.detach().clone(memory_format=torch.contiguous_format).resolve_neg())


@pytest.mark.filterwarnings("ignore")  # torch deprecates quantised tensors
def test_quantised_values_are_the_real_ones():
    values = torch.quantize_per_tensor(torch.tensor([0.0, 1.0, -2.0]), 0.5, 0, torch.qint8)
    assert_measured(summarize([values])[0], torch.tensor([0.0, 1.0, -2.0]))


def test_many_tensors_keep_their_order():
    tensors = [torch.randn(n, dtype=(torch.float32, torch.float64, torch.bfloat16)[n % 3]) for n in range(60)]
    for summary, tensor in zip(summarize(tensors), tensors, strict=True):
        assert_measured(summary, tensor if tensor.dtype is torch.float64 else tensor.float())
    assert summarize([]) == []


def test_a_converted_tensor_may_exceed_the_size_of_a_piece():
    values = torch.randn(measurement_values._CONVERTED_LENGTH + 5).bfloat16()
    expected = Histogram.from_values("x", values, step=0, time_ns=0)
    ours = summarize([values, values])[1].histogram("x", 0, time_ns=0)
    np.testing.assert_array_equal(expected.counts, ours.counts)
    assert ours.mean == pytest.approx(expected.mean, abs=1e-12)


def freed(dtype, part=slice(None)):
    tensor = torch.ones(1000, dtype=dtype)
    view = tensor[part]
    tensor.untyped_storage().resize_(0)
    return view


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(2, device="meta"), "meta tensor"),
        (torch.ones(2, device="meta", dtype=torch.complex64), "meta tensor"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
        (torch.nn.UninitializedParameter(), "has no plain values"),
        (freed(torch.float32), "was freed"),
        (freed(torch.bfloat16), "was freed"),
        (freed(torch.float32, slice(10, 20)), "was freed"),
        (freed(torch.float16, slice(10, 20)), "was freed"),
        (np.ones(3), "got ndarray; expected a torch tensor"),
    ],
)
def test_tensors_without_values_are_named_and_refused(tensor, message):
    with pytest.raises(ArtifactError, match=f"tensor 'fc1.weight': .*{message}"):
        summarize({"fc0.weight": torch.ones(2), "fc1.weight": tensor})
    with pytest.raises(ArtifactError, match=f"tensor 1: .*{message}"):
        summarize([torch.ones(2), tensor])


@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_one_tensor_is_not_taken_for_its_rows(shape):
    with pytest.raises(
        ArtifactError, match=r"got a tensor of shape .*; expected several, as in summarize\(\[tensor\]\)"
    ):
        summarize(torch.ones(shape))


def test_tensors_inside_vmap_and_fake_mode_are_refused():
    with pytest.raises(ArtifactError, match="has no plain values"):
        torch.vmap(lambda x: summarize([x]) and x)(torch.ones(3, 2))
    with FakeTensorMode() as mode, pytest.raises(ArtifactError, match=r"no plain values|freed"):
        summarize([mode.from_tensor(torch.ones(3))])


def test_neither_the_tensors_nor_the_random_state_change():
    tensors = [torch.randn(5000), torch.randn(10, 9, dtype=torch.float64).T, torch.randn(50).bfloat16()]
    tensors[0][7] = math.nan
    before, versions = [tensor.clone() for tensor in tensors], [tensor._version for tensor in tensors]
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    with torch.inference_mode():
        summarize(tensors)
    for tensor, copy in zip(tensors, before, strict=True):
        torch.testing.assert_close(tensor, copy, rtol=0, atol=0, equal_nan=True)
    assert versions == [tensor._version for tensor in tensors]
    assert torch.equal(state, torch.get_rng_state())
    assert (numpy_state == np.random.get_state()[1]).all()


def test_a_local_shard_is_marked(tmp_path):
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        shard = torch.distributed.tensor.distribute_tensor(torch.randn(8), mesh)
        whole, local = summarize([torch.ones(2), shard])
        assert (whole.local_shard, local.local_shard) == (False, True)
        assert_measured(local, shard.to_local())
        assert local.merge(whole).local_shard
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.cuda
@pytest.mark.parametrize("deterministic", [False, True])
def test_on_cuda_nothing_waits_for_the_device(deterministic):
    tensors = [torch.randn(10_000), torch.randn(30).bfloat16(), torch.empty(0), torch.randn(9, dtype=torch.float64)]
    on_device = [tensor.cuda() for tensor in tensors]
    measure(on_device).resolve()
    torch.use_deterministic_algorithms(deterministic)
    torch.cuda.set_sync_debug_mode("error")
    try:
        pending = measure(on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.use_deterministic_algorithms(False)
    for summary, tensor in zip(pending.resolve(), tensors, strict=True):
        finite = assert_counted(summary, tensor if tensor.dtype is torch.float64 else tensor.float())
        assert summary.l1 == pytest.approx(math.fsum(map(abs, finite)), rel=2**-20)
        assert summary.l2 == pytest.approx(math.sqrt(math.fsum(value * value for value in finite)), rel=2**-20)


@pytest.mark.cuda
def test_each_of_two_devices_measures_its_own_tensors():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    tensors = [torch.randn(1000), torch.randn(2000)]
    with torch.cuda.device(0):
        found = summarize([tensors[0].to("cuda:0"), tensors[1].to("cuda:1")])
        assert torch.cuda.current_device() == 0
    for summary, tensor in zip(found, tensors, strict=True):
        assert_counted(summary, tensor)


@pytest.mark.parametrize(
    ("view", "dense"),
    [
        (lambda x: x.permute(2, 0, 1), True),
        (lambda x: x[:, :1], False),
        (lambda x: x[..., ::2], False),
        (lambda x: x.transpose(0, 2), True),
        (lambda x: x[0].t(), True),
        (lambda x: x[:1].expand(3, 4, 5), False),
        (lambda x: x.as_strided((2, 2), (1, 1)), False),
    ],
)
def test_views_hold_the_elements_that_they_show(view, dense):
    values = view(torch.randn(3, 4, 5))
    assert choosing.is_dense(values) is dense
    assert_measured(summarize([values])[0], values.contiguous())


def test_tensors_measured_together_give_what_each_gives_alone():
    """Those at the beginning that lie plain in memory are added together, whatever follows them."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(3 * size, generator=generator) for size in range(1, 6)]
    odd = [values[0].half(), values[1].double(), values[2].reshape(3, 3).t(), torch.empty(0), torch.arange(4)]
    before = [value + 1 for value in values]
    for together in (values, [*values, *odd], [*odd, *values], [odd[1], odd[2], *values], [*values, values[0]]):
        table = measure([*together, *map(Difference, values, before)]).resolve()
        alone = [summarize([tensor])[0] for tensor in together]
        alone += [measure([Difference(*pair)]).resolve()[0] for pair in zip(values, before, strict=True)]
        assert [(repr(one), one.bins.tolist(), one.counts.tolist()) for one in table] == [
            (repr(one), one.bins.tolist(), one.counts.tolist()) for one in alone
        ]
