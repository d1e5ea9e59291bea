"""Mean, std, min and max of a copied tensor, as NumPy finds them in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as array_strategies
from tracker_adapters.native.extension import kernels, why_not

from debuggers.layer_values.values import copy_and_spread, spread
from debuggers.measurement.kernels.spread import spread_of

pytestmark = pytest.mark.skipif(kernels() is None, reason=why_not())

SHARE = 64 * 2048
arrays = st.sampled_from(["f4", "f8"]).flatmap(
    lambda dtype: array_strategies.arrays(
        dtype,
        st.integers(2, 5000),
        elements=st.floats(-1e6, 1e6, width=32),
        fill=st.floats(-1e6, 1e6, width=32),
    )
)


def measured(values, copy=None):
    return spread_of(torch.from_numpy(values), None if copy is None else torch.from_numpy(copy))


def assert_right(values):
    exact = values.astype(np.float64)
    mean, std, low, high = measured(values)
    assert (low, high) == (exact.min(), exact.max())
    true_std = exact.std(ddof=1)
    assert std == pytest.approx(true_std, rel=1e-6, abs=1e-15 * np.abs(exact).max())
    assert mean == pytest.approx(exact.mean(), abs=1e-6 * true_std + 1e-7 * abs(exact.mean()))


@given(arrays)
def test_the_figures_are_those_of_two_passes_in_float64(values):
    assert_right(values)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("size", [2, 2048, 2049, SHARE, SHARE + 1, 3 * SHARE + 12_345])
@pytest.mark.parametrize(("offset", "scale"), [(0, 1), (1e6, 1), (0, 1e-20), (1e-3, 1e-6), (0, 1e15)])
def test_neither_offset_nor_scale_costs_digits(dtype, size, offset, scale):
    assert_right((offset + scale * np.random.default_rng(size).standard_normal(size)).astype(dtype))


def test_an_outlier_at_the_beginning_costs_no_digits():
    values = np.random.default_rng(0).normal(1.0, 1e-2, 10_000).astype(np.float32)
    values[2048] = 1e4
    assert_right(values)


def test_constants_have_no_spread():
    assert measured(np.full(5000, 0.1, np.float32)) == (np.float32(0.1), 0.0, np.float32(0.1), np.float32(0.1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -np.nan])
@pytest.mark.parametrize("place", [0, 2047, 2048, SHARE - 1, SHARE, SHARE + 4999])
def test_what_is_not_finite_is_left_to_others_but_copied(value, place):
    values = np.ones(SHARE + 5000, np.float32)
    values[place] = value
    copy = np.zeros_like(values)
    assert measured(values, copy) is None
    assert copy.tobytes() == values.tobytes()


def test_sums_beyond_the_dtype_are_left_to_others():
    assert measured(np.array([-1e200, 1e200])) is None
    assert measured(np.array([-1e30, 1e30], np.float32)) is None


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_result_does_not_depend_on_the_number_of_threads(dtype):
    values = np.random.default_rng(0).standard_normal(5 * SHARE + 77).astype(dtype)
    copies = np.zeros_like(values), np.zeros_like(values)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = measured(values, copies[0])
        torch.set_num_threads(4)
        together = measured(values, copies[1])
    finally:
        torch.set_num_threads(before)
    assert alone == together
    assert copies[0].tobytes() == copies[1].tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "output",
    [
        torch.randn(2, 16, 32, 32),
        torch.randn(2, 16, 32, 32).to(memory_format=torch.channels_last),
        torch.randn(2, 16, 32, 64)[..., ::2],
        torch.randn(16, 1).expand(16, 2048),
        torch.randn(20_000, dtype=torch.float64),
        torch.randn(20_000).bfloat16(),
        torch.randn(20_000, requires_grad=True),
        torch.full((20_000,), float("nan")),
        torch.tensor([3.0]),
        torch.ones(0),
    ],
    ids=lambda output: f"{tuple(output.shape)} {output.stride()} {output.dtype}",
)
def test_a_copy_is_what_clone_gives(output):
    values = output.detach() if output.dtype != torch.bfloat16 else output.float()
    copy, figures = copy_and_spread(output, values)
    expected = output.detach().clone()
    assert (copy.stride(), copy.dtype, copy.requires_grad) == (expected.stride(), expected.dtype, False)
    assert torch.equal(copy.reshape(-1).view(torch.uint8), expected.reshape(-1).view(torch.uint8))
    assert copy.data_ptr() != output.data_ptr() or not output.numel()
    exact = values.double()
    if exact.isfinite().all() and exact.numel() > 1:
        assert figures == pytest.approx(
            {name: getattr(exact, name)().item() for name in ("mean", "std", "min", "max")}, rel=1e-5, abs=1e-6
        )
    assert figures == pytest.approx(spread(values), nan_ok=True)
