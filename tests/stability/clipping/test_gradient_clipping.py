"""Norm clipping: the bits of clip_grad_norm_, and what happens where its norm overflows."""

import copy
import math

import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, StabilityError

SHAPES = ((3,), (4, 5), (2, 3, 4), (1,), (17,))


def model_of(parameters):
    model = nn.Module()
    for number, parameter in enumerate(parameters):
        model.register_parameter(f"p{number}", parameter)
    return model


def twin_of(model):
    """Copies gradients too, which deepcopy leaves out."""
    twin = copy.deepcopy(model)
    for copied, parameter in zip(twin.parameters(), model.parameters(), strict=True):
        copied.grad = None if parameter.grad is None else parameter.grad.clone()
    return twin


def manager(**clipping):
    return NumericalStabilityManager(GradientClippingConfig(**clipping), NaNHandlingConfig())


def step(model, stability):
    return stability.step(model, 0.5, torch.optim.SGD(model.parameters(), lr=0.1))


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@st.composite
def models(draw):
    """Parameters of mixed dtypes and shapes, some frozen, some without a gradient, some tied."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    parameters = []
    for _ in range(draw(st.integers(1, 8))):
        dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))
        values = torch.randn(draw(st.sampled_from(SHAPES)), dtype=torch.float64)
        parameter = nn.Parameter(values.to(dtype))
        if draw(st.booleans()) or not parameters:
            parameter.grad = (torch.randn(values.shape) * draw(st.sampled_from([1e-3, 1.0, 30.0]))).to(dtype)
        elif draw(st.booleans()):
            parameter.requires_grad_(False)
        parameters.append(parameter)
    model = model_of(parameters)
    if draw(st.booleans()):
        model.register_parameter("tied", parameters[0])
    return model


@settings(deadline=None, max_examples=examples(200))
@given(
    model=models(),
    max_norm=st.sampled_from([1e-3, 0.5, 1.0, 7.0, 1e4, math.inf]),
    norm_type=st.sampled_from([0.5, 1.0, 2.0, 3.0, math.inf]),
)
def test_clipping_equals_clip_grad_norm_bit_for_bit(model, max_norm, norm_type):
    twin = twin_of(model)
    expected_norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), max_norm, norm_type)

    result = step(model, manager(max_norm=max_norm, norm_type=norm_type))

    if not math.isfinite(expected_norm):
        assert result["nan_stats"]["norm_overflow"]
        return
    assert expected_norm.item() == result["clipping_stats"]["total_norm"]
    for expected, clipped in zip(twin.parameters(), model.parameters(), strict=True):
        assert (expected.grad is None) == (clipped.grad is None)
        if clipped.grad is not None:
            assert bits(expected.grad) == bits(clipped.grad)


def test_clipping_type_none_measures_and_leaves_the_gradients_alone():
    parameter = nn.Parameter(torch.zeros(4))
    parameter.grad = torch.full((4,), 10.0)

    result = step(model_of([parameter]), manager(clipping_type="none"))

    assert tuple(result["clipping_stats"][key] for key in ("total_norm", "clip_coefficient", "clipped")) == (
        20.0,
        1.0,
        False,
    )
    assert parameter.grad.tolist() == [10.0] * 4


@pytest.mark.parametrize(
    ("dtype", "value", "max_norm"),
    [(torch.float16, 6e4, 1.0), (torch.float32, 1e38, 1.0), (torch.float32, 1e38, 1e-4), (torch.float64, 1e300, 1.0)],
)
def test_finite_gradients_whose_norm_overflows_are_clipped_by_their_true_norm(dtype, value, max_norm):
    """With 1e38 and 1e-4 even the factor is beyond float32."""
    parameter = nn.Parameter(torch.zeros(10_000, dtype=dtype))
    parameter.grad = torch.full((10_000,), value, dtype=dtype)
    true_norm = parameter.grad[0].item() * 100.0

    result = step(model_of([parameter]), manager(max_norm=max_norm))

    assert result["nan_stats"]["norm_overflow"]
    assert result["nan_stats"]["gradients_finite"]
    assert true_norm == pytest.approx(result["clipping_stats"]["total_norm"], rel=1e-9)
    assert parameter.grad.double().norm().item() == pytest.approx(max_norm, rel=1e-3)
    (anomaly,) = result["debug_info"]["anomaly_details"]
    assert anomaly["kind"] == "gradient_norm_overflow"
    assert f"the sum for their norm, which is {true_norm:g}, overflows in their dtype" in anomaly["message"]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.float32, 1e-30),
        (torch.float32, 1e-40),
        (torch.float32, 1e-21),
        (torch.bfloat16, 1e-30),
        (torch.float16, 1e-7),
        (torch.float64, 1e-200),
        (torch.complex64, 1e-30),
    ],
)
@pytest.mark.parametrize(
    "clipping",
    [
        {},
        {"norm_type": 3.0},
        {"norm_type": 1.0},
        {"norm_type": math.inf},
        *({"clipping_type": name} for name in ("none", "value", "global_norm", "adaptive", "exponential", "agc")),
        {"clipping_type": "layer_wise", "layer_thresholds": {"*": 1.0}},
    ],
    ids=lambda clipping: " ".join(map(str, clipping.values())) or "norm",
)
def test_the_norm_of_gradients_whose_squares_are_lost_is_told_and_they_are_left_alone(dtype, value, clipping):
    parameters = [nn.Parameter(torch.ones(size, dtype=dtype)) for size in (50, 7, 0)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, value)
    before = [bits(parameter.grad) for parameter in parameters]
    order = clipping.get("norm_type", 2.0)
    true_norm = parameters[0].grad[0].abs().item() * (1.0 if math.isinf(order) else 57 ** (1 / order))

    stats = step(model_of(parameters), manager(**clipping))["clipping_stats"]

    assert stats["total_norm"] == pytest.approx(true_norm, rel=1e-6, abs=0.0)
    assert before == [bits(parameter.grad) for parameter in parameters]


def test_gradients_of_zeros_have_the_norm_zero():
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.zeros(3)
    assert step(model_of([parameter]), manager())["clipping_stats"]["total_norm"] == 0.0


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_non_finite_gradient_stops_clipping_so_that_it_does_not_spread(poison):
    sound, broken = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    sound.grad, broken.grad = torch.full((3,), 5.0), torch.tensor([1.0, poison, 2.0])
    before = bits(broken.grad)

    result = step(model_of([sound, broken]), manager())

    assert sound.grad.tolist() == [5.0] * 3
    assert before == bits(broken.grad)
    assert not result["clipping_stats"]["clipped"]
    assert result["clipping_stats"]["clip_coefficient"] == 1.0
    assert not math.isfinite(result["clipping_stats"]["total_norm"])


def test_complex_gradients_are_clipped_as_clip_grad_norm_does():
    parameter = nn.Parameter(torch.zeros(5, dtype=torch.complex64))
    parameter.grad = torch.complex(torch.arange(5.0), torch.ones(5))
    twin = nn.Parameter(torch.zeros(5, dtype=torch.complex64))
    twin.grad = parameter.grad.clone()
    torch.nn.utils.clip_grad_norm_([twin], 1.0)

    step(model_of([parameter]), manager())

    assert torch.equal(twin.grad, parameter.grad)


def test_a_model_without_gradients_is_refused():
    with pytest.raises(StabilityError, match=r"none of the 2 parameters of Linear has a gradient; .*loss.backward"):
        step(nn.Linear(2, 2), manager())
