"""A table: what each clipping type makes of gradients, against an independent formula in float64."""

import math

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.measurement.measure import measure
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

SHAPES = ((), (3,), (1,), (4, 5), (6, 1), (1, 7), (3, 2, 4), (4, 2, 3, 3), (0, 3))
LAYERS = {"p1": 0.5, "p[02]": 3.0, "p*": 1e-2}


def norm(arrays, p=2.0):
    values = np.abs(np.concatenate([array.ravel() for array in arrays]))
    return values.max(initial=0.0) if math.isinf(p) else float((values**p).sum() ** (1 / p))


def scaled(gradients, threshold, p=2.0):
    factor = min(1.0, threshold / (norm(gradients, p) + 1e-6))
    return [gradient * factor for gradient in gradients]


def clipped_to(gradients, magnitude):
    return [np.clip(gradient, -magnitude, magnitude) for gradient in gradients]


def by_global_norm(gradients, max_norm):
    return [gradient * (max_norm / max(norm(gradients), max_norm)) for gradient in gradients]


def by_layer(gradients):
    thresholds = [0.5 if index == 1 else 3.0 if index in {0, 2} else 1e-2 for index in range(len(gradients))]
    return [scaled([gradient], bound)[0] for gradient, bound in zip(gradients, thresholds, strict=True)]


def by_unit(gradients, weights, factor, eps):
    results = []
    for gradient, weight in zip(gradients, weights, strict=True):
        result = np.array(gradient)
        one_unit = sum(size > 1 for size in gradient.shape) <= 1
        for unit in [...] if one_unit else range(len(gradient)):
            bound = factor * max(norm([weight[unit]]), eps)
            size = norm([gradient[unit]])
            if size > bound:
                result[unit] = gradient[unit] * (bound / max(size, 1e-6))
        results.append(result)
    return results


SINGLE_STEPS = {
    "none": ({}, lambda g, _: g),
    "norm": ({"max_norm": 0.7}, lambda g, _: scaled(g, 0.7)),
    "norm, p = 3": ({"max_norm": 0.7, "norm_type": 3.0}, lambda g, _: scaled(g, 0.7, 3.0)),
    "norm, largest": ({"max_norm": 0.7, "norm_type": math.inf}, lambda g, _: scaled(g, 0.7, math.inf)),
    "value": ({"clip_value": 0.3}, lambda g, _: clipped_to(g, 0.3)),
    "global_norm": ({"max_norm": 0.7}, lambda g, _: by_global_norm(g, 0.7)),
    "adaptive": ({}, lambda g, _: g),
    "exponential": ({}, lambda g, _: g),
    "layer_wise": ({"layer_thresholds": LAYERS}, lambda g, _: by_layer(g)),
    "agc": ({"agc_clip_factor": 0.1, "agc_eps": 1e-2}, lambda g, w: by_unit(g, w, 0.1, 1e-2)),
}


def model_of(weights, gradients=None, dtype=None):
    model = nn.Module()
    for number, weight in enumerate(weights):
        model.register_parameter(f"p{number}", nn.Parameter(torch.tensor(weight, dtype=dtype or torch.float32)))
    if gradients is not None:
        give(model, gradients)
    return model


def give(model, gradients):
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = torch.tensor(gradient, dtype=parameter.dtype)


def gradients_of(model):
    return [parameter.grad.detach().clone() for parameter in model.parameters()]


def wide(tensors):
    return [tensor.to_dense().to(torch.float64).numpy() for tensor in tensors]


def manager(clipping_type, **fields):
    return NumericalStabilityManager(
        GradientClippingConfig(clipping_type=clipping_type, **fields), NaNHandlingConfig(), parameter_norms_every=None
    )


def step(model, stability, *, summaries=None):
    return stability.step(model, 0.5, torch.optim.SGD(model.parameters(), lr=0.1), summaries=summaries)


@st.composite
def cases(draw):
    """Weights and gradients of at least three parameters, of many shapes and scales."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shapes = [draw(st.sampled_from(SHAPES)) for _ in range(draw(st.integers(3, 6)))]
    scales = st.sampled_from([0.0, 1e-7, 1e-3, 0.3, 1.0, 40.0])
    weights = [random.standard_normal(shape) * draw(scales) for shape in shapes]
    gradients = [random.standard_normal(shape) * draw(scales) for shape in shapes]
    return [np.array(weight, np.float32) for weight in weights], [
        np.array(gradient, np.float32) for gradient in gradients
    ]


def assert_close(expected, model, rtol=1e-5):
    for one, other in zip(expected, wide(gradients_of(model)), strict=True):
        np.testing.assert_allclose(other, one, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        pytest.param(name, shared, marks=pytest.mark.slow if shared and name not in ("norm", "agc") else ())
        for name in SINGLE_STEPS
        for shared in (False, True)
    ],
)
@settings(deadline=None, max_examples=examples(20))
@given(case=cases())
def test_a_step_is_clipped_as_the_formula_says(name, shared, case):
    fields, formula = SINGLE_STEPS[name]
    weights, gradients = case
    model = model_of(weights, gradients)
    wanted = formula(*([np.array(array, np.float64) for array in arrays] for arrays in (gradients, weights)))

    summaries = measure(gradients_of(model)).resolve() if shared else None
    stats = step(model, manager(name.partition(",")[0], **fields), summaries=summaries)["clipping_stats"]

    assert_close(wanted, model)
    assert norm(gradients, fields.get("norm_type", 2.0)) == pytest.approx(stats["total_norm"], rel=1e-5, abs=1e-30)
    if stats["clipped_norm"] is not None:
        assert norm(wanted, fields.get("norm_type", 2.0)) == pytest.approx(stats["clipped_norm"], rel=1e-5, abs=1e-6)
    changed = [not np.array_equal(one, other) for one, other in zip(gradients, wide(gradients_of(model)), strict=True)]
    assert stats["clipped_parameters"] >= sum(changed)
    assert stats["clipped"] == (stats["clip_coefficient"] < 1.0) == (stats["clipped_parameters"] > 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize("name", SINGLE_STEPS)
def test_other_dtypes_are_clipped_as_the_formula_says(name, dtype):
    """Real values as complex ones are clipped alike: the modulus counts."""
    random = np.random.default_rng(3)
    weights, gradients = [[random.standard_normal(shape) for shape in SHAPES[1:8]] for _ in range(2)]
    fields, formula = SINGLE_STEPS[name]
    model = model_of(weights, gradients, dtype)
    stored = [tensor.real.double().numpy() for tensor in gradients_of(model)]
    wanted = formula(stored, [tensor.detach().real.double().numpy() for tensor in model.parameters()])

    step(model, manager(name.partition(",")[0], **fields))

    assert {dtype} == {tensor.dtype for tensor in gradients_of(model)}
    for one, tensor in zip(wanted, gradients_of(model), strict=True):
        np.testing.assert_allclose(tensor.real.double().numpy(), one, rtol=2e-2, atol=1e-4)


@pytest.mark.parametrize("name", SINGLE_STEPS)
def test_gradients_whose_norm_is_beyond_float32_are_clipped_by_the_formula_too(name):
    gradients = [np.full(shape, 1e38, np.float32) for shape in ((40,), (5, 8), (3, 2))]
    weights = [np.ones_like(gradient) for gradient in gradients]
    fields, formula = SINGLE_STEPS[name]
    model = model_of(weights, gradients)

    step(model, manager(name.partition(",")[0], **fields))

    wanted = formula(*([np.array(array, np.float64) for array in arrays] for arrays in (gradients, weights)))
    assert_close(wanted, model, rtol=1e-3)


def adaptive_thresholds(norms, factor):
    """Of each step, from the norms before clipping."""
    thresholds, clipped = [], []
    for value in norms:
        thresholds.append(factor * np.mean(clipped[-10:]) if clipped else math.inf)
        clipped.append(value * min(1.0, thresholds[-1] / (value + 1e-6)))
    return thresholds


def exponential_thresholds(norms, factor, decay, floor):
    thresholds, clipped = [], []
    for value in norms:
        weights = decay ** np.arange(len(clipped))[::-1]
        thresholds.append(max(floor, factor * np.average(clipped, weights=weights)) if clipped else math.inf)
        clipped.append(value * min(1.0, thresholds[-1] / (value + 1e-6)))
    return thresholds


@pytest.mark.parametrize(
    ("fields", "formula"),
    [
        ({"clipping_type": "adaptive"}, lambda norms: adaptive_thresholds(norms, 2.0)),
        (
            {"clipping_type": "adaptive", "adaptive_factor": 1.2, "norm_type": 1.0},
            lambda norms: adaptive_thresholds(norms, 1.2),
        ),
        ({"clipping_type": "exponential"}, lambda norms: exponential_thresholds(norms, 2.0, 0.97, 0.1)),
        (
            {
                "clipping_type": "exponential",
                "exponential_factor": 1.5,
                "exponential_decay": 0.5,
                "exponential_floor": 2.0,
            },
            lambda norms: exponential_thresholds(norms, 1.5, 0.5, 2.0),
        ),
    ],
)
@settings(deadline=None, max_examples=examples(20))
@given(scales=st.lists(st.floats(1e-4, 1e4), min_size=2, max_size=16), seed=st.integers(0, 1000))
def test_moving_thresholds_follow_the_norms_as_clipped(fields, formula, scales, seed):
    random = np.random.default_rng(seed)
    model = model_of([np.zeros(4, np.float32), np.zeros((2, 3), np.float32)])
    stability = manager(**fields)
    p = fields.get("norm_type", 2.0)
    history = [
        [(random.standard_normal(shape) * scale).astype(np.float32) for shape in (4, (2, 3))] for scale in scales
    ]

    thresholds = formula([norm(gradients, p) for gradients in history])
    for gradients, threshold in zip(history, thresholds, strict=True):
        give(model, gradients)
        stats = step(model, stability)["clipping_stats"]
        assert (None if threshold == math.inf else pytest.approx(threshold, rel=1e-5)) == stats["threshold"]
        assert_close(scaled([array.astype(np.float64) for array in gradients], threshold, p), model)


def test_steps_without_gradients_do_not_close_a_moving_threshold_for_ever():
    """A norm of zero in the mean would set the threshold, and with it all later gradients, to zero."""
    for clipping_type in ("adaptive", "exponential"):
        stability = manager(clipping_type)
        model = model_of([np.zeros(4, np.float32)])
        for value in (0.0, 0.0, 1.0):
            give(model, [np.full(4, value, np.float32)])
            step(model, stability)
        assert model.p0.grad.tolist() == [1.0] * 4


def test_a_threshold_that_moves_is_emitted():
    emitter = MemoryEmitter()
    config = GradientClippingConfig(clipping_type="adaptive")
    stability = NumericalStabilityManager(config, NaNHandlingConfig(), emitter=emitter)
    model = model_of([np.zeros(4, np.float32)])
    for _ in range(2):
        give(model, [np.full(4, 1.0, np.float32)])
        step(model, stability)

    found = [item for item in emitter.artifacts if item.name == "stability/clip_threshold"]

    assert [(item.step, item.value) for item in found] == [(1, 4.0)]
