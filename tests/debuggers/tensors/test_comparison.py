"""Comparisons equal float64 references, and what cannot be compared is None with the reason."""

import math

import numpy as np
import pytest
import torch
from debugger_parts import assert_elements
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from debuggers.tensors.info import HealthLevel
from debuggers.tensors.inspector import TensorInspector

DIVERGENCES = ("kl_divergence", "reverse_kl_divergence", "jensen_shannon_divergence")


FLOATS = hnp.arrays(
    np.float64, 12, elements=st.one_of(st.floats(-1e100, 1e100), st.sampled_from([0, math.nan, math.inf]))
)


def compare_tensors(a, b):
    inspector = TensorInspector(level=HealthLevel.FULL_TENSOR)
    return inspector.compare(*(inspector.inspect_tensor(value, name) for value, name in ((a, "a"), (b, "b"))))


def squares_fit(values):
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)])
    return not magnitudes.size or magnitudes.min() > 1e-100


@settings(deadline=None)
@given(a=FLOATS.filter(squares_fit), b=FLOATS.filter(squares_fit))
def test_any_values(a, b):
    assert_elements(compare_tensors(a, b).elements, a, b)


def test_an_array_larger_than_a_piece():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 600_001)).astype(np.float32)
    assert_elements(compare_tensors(a, torch.from_numpy(b)).elements, a, b)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int64, torch.bool, torch.uint8]
)
def test_other_dtypes_compare_by_their_values(dtype):
    a, b = (torch.tensor(values).to(dtype) for values in ([0.0, 1, 3, 7], [1.0, 1, 4, 0]))
    assert_elements(compare_tensors(a, b).elements, a.double().numpy(), b.double().numpy())


def test_complex_values():
    a, b = torch.tensor([3 + 4j, 1j, 2]), torch.tensor([3 + 1j, -1j, 5]).conj()
    assert_elements(compare_tensors(a, b).elements, a.numpy(), b.resolve_conj().numpy())


@pytest.mark.parametrize(
    ("a", "b", "relative"), [([0.0, 0.0], [1.0, 0.0], math.inf), ([0.0], [0.0], math.nan), ([2.0], [2.0], 0.0)]
)
def test_the_relative_difference_to_zero(a, b, relative):
    assert compare_tensors(a, b).elements.relative == pytest.approx(relative, nan_ok=True)


def test_differences_of_statistics():
    a, b = np.random.default_rng(1).normal(size=(2, 1000)) * [[1], [3]] + [[0], [5]]
    found = compare_tensors(a, b)
    assert found.mean_difference == pytest.approx(b.mean() - a.mean())
    assert found.std_difference == pytest.approx(b.std() - a.std())
    assert found.l1_difference == pytest.approx(np.abs(b).sum() - np.abs(a).sum())
    assert found.l2_difference == pytest.approx(np.linalg.norm(b) - np.linalg.norm(a))
    assert found.missing == ""


def divergences(comparison):
    return [getattr(comparison, key) for key in DIVERGENCES]


def test_divergences_by_hand():
    """Powers of two have a bin each: the counts over 1, 2, 4 and zero are 3, 1, 0, 0 and 1, 0, 2, 1."""
    found = compare_tensors([1.0, 1.0, 1.0, 2.0], [1.0, 4.0, 4.0, 0.0])
    p, q = np.array([3, 1, 0, 0]) / 4, np.array([1, 0, 2, 1]) / 4
    smooth_p, smooth_q = np.array([3.5, 1.5, 0.5, 0.5]) / 6, np.array([1.5, 0.5, 2.5, 1.5]) / 6
    m = (p + q) / 2
    shannon = sum(x * math.log(x / y) for r in (p, q) for x, y in zip(r, m, strict=True) if x) / 2
    expected = [(smooth_p * np.log(smooth_p / smooth_q)).sum(), (smooth_q * np.log(smooth_q / smooth_p)).sum(), shannon]
    assert divergences(found) == pytest.approx(expected, rel=1e-12)


def test_equal_distributions_do_not_diverge():
    values = torch.randn(1000)
    assert divergences(compare_tensors(values, values.flip(0))) == [0, 0, 0]


def test_disjoint_distributions_diverge_finitely():
    forward, backward, shannon = divergences(compare_tensors([1.0] * 100, [-1.0] * 100))
    assert shannon == pytest.approx(math.log(2))
    assert forward == backward == pytest.approx(100 / 101 * math.log(100.5 / 0.5))


@settings(deadline=None)
@given(
    a=hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32, allow_nan=False)), b=st.just(np.ones(9))
)
def test_divergences_have_their_bounds(a, b):
    found = compare_tensors(a, b)
    if math.isnan(found.kl_divergence):
        assert not np.isfinite(a).any()
        return
    assert 0 <= found.kl_divergence < math.inf
    assert 0 <= found.reverse_kl_divergence < math.inf
    assert 0 <= found.jensen_shannon_divergence <= math.log(2) + 1e-12


def test_without_finite_elements_divergences_are_nan():
    assert np.isnan(divergences(compare_tensors([math.nan], [1.0]))).all()


def test_different_shapes_have_no_pairs_of_elements():
    found = compare_tensors(torch.ones(2, 3), torch.ones(3, 2))
    assert found.elements is None
    assert found.missing == "the shapes are (2, 3) and (3, 2): there are no pairs of elements"
    assert found.mean_difference == 0


@pytest.mark.parametrize(
    ("level", "missing"),
    [
        (HealthLevel.CURT, "tensor 'y' at step 3 was inspected at CURT: it has no statistics"),
        (HealthLevel.CONCISE, "tensor 'y' at step 3 was inspected at CONCISE: it has no statistics"),
        (HealthLevel.FULL, "tensor 'y' at step 3 was inspected at FULL: it has no values"),
    ],
)
def test_a_lower_level_leaves_something_out_and_says_so(level, missing):
    inspector = TensorInspector()
    x = inspector.inspect_tensor([1.0], "x", step=3, level=HealthLevel.FULL_TENSOR)
    y = inspector.inspect_tensor([2.0], "y", step=3, level=level)
    found = inspector.compare(x, y)
    assert (found.a, found.b, found.elements, found.missing) == (("x", 3), ("y", 3), None, missing)
    assert found.mean_difference == (1 if level is HealthLevel.FULL else None)
    assert (found.kl_divergence is None) == (level is not HealthLevel.FULL)
