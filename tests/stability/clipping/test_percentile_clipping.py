"""Percentile clipping: how near the histogram's threshold comes to the exact one, without sorting."""

import math

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import nn

from debuggers.measurement.measure import measure
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stability.clipping.by_value import magnitude_percentile

NORMAL = st.floats(2.0**-126, 2.0**127, width=32) | st.floats(-(2.0**127), -(2.0**-126), width=32) | st.just(0.0)
WITHIN = 0.0626  # half of an eighth of a power of two, relative to the bin's left edge


def step(gradient, percentile=99.0):
    model = nn.Module()
    model.register_parameter("p", nn.Parameter(torch.zeros_like(gradient)))
    model.p.grad = gradient.clone()
    config = GradientClippingConfig(clipping_type="percentile", percentile=percentile)
    manager = NumericalStabilityManager(config, NaNHandlingConfig())
    return model.p.grad, manager.step(model, 0.5, torch.optim.SGD([model.p], lr=0.1))["clipping_stats"]


@settings(deadline=None, max_examples=examples(200))
@given(
    values=arrays.arrays(np.float32, st.integers(1, 60), elements=NORMAL),
    percentile=st.floats(0.5, 99.5),
    pieces=st.integers(1, 3),
)
def test_the_threshold_is_within_a_sixteenth_of_the_exact_percentile(values, percentile, pieces):
    """Whatever tensors the elements are spread over."""
    tensors = [torch.from_numpy(piece.copy()) for piece in np.array_split(values, pieces)]

    found = magnitude_percentile(measure(tensors).resolve(), percentile)

    assert np.percentile(np.abs(values.astype(np.float64)), percentile) == pytest.approx(
        found, rel=WITHIN / (1 - WITHIN)
    )


@pytest.mark.parametrize("percentile", [1.0, 50.0, 90.0, 99.0, 99.9])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_the_elements_above_the_threshold_are_brought_to_it(percentile, scale):
    torch.manual_seed(0)
    gradient = torch.randn(20_000) * scale
    exact = np.percentile(gradient.double().abs().numpy(), percentile)

    clipped, stats = step(gradient, percentile)

    assert exact == pytest.approx(stats["threshold"], rel=0.07)
    assert torch.equal(gradient.clamp(-stats["threshold"], stats["threshold"]), clipped)
    assert (1, stats["threshold"] / gradient.abs().max().item()) == (
        stats["clipped_parameters"],
        pytest.approx(stats["clip_coefficient"]),
    )


def test_mostly_zeros_are_no_reason_to_wipe_out_the_rest():
    gradient = torch.zeros(1000)
    gradient[:5] = 3.0

    clipped, stats = step(gradient)

    assert torch.equal(gradient, clipped)
    assert stats["threshold"] == 0.0
    assert not stats["clipped"]


@pytest.mark.parametrize(("value", "threshold"), [(1e-60, 0.0), (1e60, 1e60)])
def test_float64_beyond_float32_counts_as_zero_or_as_the_largest(value, threshold):
    clipped, stats = step(torch.full((10,), value, dtype=torch.float64))

    assert threshold == stats["threshold"]
    assert clipped.tolist() == [value] * 10


def test_without_finite_elements_there_is_no_threshold():
    assert magnitude_percentile(measure([torch.full((3,), math.nan), torch.zeros(0)]).resolve(), 50.0) == 0.0
