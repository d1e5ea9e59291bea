"""Gradient checks: wrong backwards are found by name, right ones pass, kinks and dropout do not deceive."""

import math
import random

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, StabilityError
from stability.debugging.gradient_check import CheckLimits, describe_failure
from stability.debugging.gradient_check_values import CheckedValue
from stability.debugging.module_check import check_module, small_arguments

PATIENT = CheckLimits(3600.0, ("reverse", "forward"), sampled=True)


class Cube(torch.autograd.Function):
    """x³ with a derivative of ``factor`` x²: right for 3."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.factor * x**2, None


class CubeModule(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return Cube.apply(x, self.factor)


class SingleInside(nn.Module):
    """Computes in float32 whatever it is given, as some normalisations do."""

    def forward(self, x):
        return x.float().sin().type_as(x)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def manager():
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig())


def check(module, *args, limits=PATIENT, **kwargs):
    return check_module("layer", module, *small_arguments(args, kwargs), limits, seed=0)


def values(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


IMAGES, ROWS, TOKENS = values(2, 3, 6, 6), values(4, 6), values(2, 3, 8)


@pytest.mark.parametrize(
    ("module", "args"),
    [
        (nn.Linear(6, 3), [ROWS]),
        pytest.param(nn.Conv2d(3, 2, 3), [IMAGES], marks=pytest.mark.slow),
        (nn.ReLU(), [torch.zeros(4, 4)]),
        (nn.ReLU(inplace=True), [ROWS]),
        pytest.param(nn.MaxPool2d(2), [IMAGES.relu()], marks=pytest.mark.slow),
        (nn.BatchNorm2d(3), [IMAGES]),
        pytest.param(nn.BatchNorm2d(3).eval(), [IMAGES], marks=pytest.mark.slow),
        (nn.Dropout(0.5), [ROWS]),
        pytest.param(nn.LayerNorm(6), [ROWS], marks=pytest.mark.slow),
        (nn.LSTM(8, 2), [TOKENS]),
        (nn.Embedding(5, 3), [torch.tensor([[0, 4], [2, 2]])]),
        (nn.Embedding(5, 3, sparse=True), [torch.tensor([[0, 4], [2, 2]])]),
        pytest.param(
            nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True), [TOKENS, TOKENS, TOKENS], marks=pytest.mark.slow
        ),
        pytest.param(nn.utils.parametrizations.weight_norm(nn.Linear(6, 2)), [ROWS], marks=pytest.mark.slow),
        (CubeModule(3), [ROWS]),
        (nn.Linear(3, 2, dtype=torch.complex64), [torch.ones(2, 3, dtype=torch.complex64)]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_right_module_passes(module, args):
    result = check(module, *args)

    assert (result["passed"], result["skipped"]) == (True, "")
    assert "reverse" in result["modes"]


def test_a_wrong_backward_is_named_with_its_element_and_both_values():
    result = check(CubeModule(2), values(3))

    assert result["passed"] is False
    (failure,) = result["failures"]
    assert (failure["input"], failure["output"], failure["mode"]) == ("input 0", 0, "reverse")
    assert failure["input_index"] == [failure["output_index"]]
    assert failure["analytical"] / failure["numerical"] == pytest.approx(2 / 3, rel=1e-4)
    assert "Jacobian mismatch for output 0 with respect to input 0" in failure["message"]
    assert f"layer: the gradient of output 0 with respect to input 0{failure['input_index']}" in describe_failure(
        result
    )


def test_a_wrong_gradient_of_a_parameter_is_named_by_the_parameter():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.right = nn.Parameter(torch.ones(6))
            self.wrong = nn.Parameter(torch.ones(6))

        def forward(self, x):
            return x * self.right + Cube.apply(self.wrong, 7)

    result = check(Scaled(), ROWS)

    assert {failure["input"] for failure in result["failures"]} == {"wrong"}


def test_an_error_that_no_chosen_output_shows_alone_is_found_among_many_outputs():
    assert check(CubeModule(3.1), values(64, 64))["passed"] is False


def test_the_module_itself_and_the_generators_are_left_alone():
    module = nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(), Counts()).train()
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    check(module, ROWS)

    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), np.random.get_state()[1].tolist())
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert (calls, module[2].calls, module.training) == ([], 0, True)
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (SingleInside(), "computes below float64 inside (float to torch.float32)"),
        (Counts(), "not deterministic"),
        (nn.Linear(7, 2), "cannot be evaluated: RuntimeError"),
    ],
)
def test_what_cannot_be_compared_is_skipped_with_the_reason(module, reason):
    result = check(module, ROWS)

    assert result["passed"] is None
    assert result["skipped"].startswith(reason)


def test_the_default_device_of_the_process_does_not_matter():
    module = nn.Linear(6, 20)
    with torch.device("meta"):
        result = check(module, ROWS)

    assert result["passed"]


def test_a_check_without_time_gives_up():
    result = check(nn.Linear(6, 3), ROWS, limits=CheckLimits(1e-9))

    assert (result["passed"], result["skipped"]) == (None, "out of time")


def test_large_inputs_are_cut_to_two_rows_and_larger_ones_refused():
    (large, mask), kwargs = small_arguments((torch.zeros(64, 2000), torch.zeros(64)), {"scale": torch.ones(())})

    assert (large.shape, mask.shape, kwargs["scale"].shape) == ((2, 2000), (2,), ())
    assert small_arguments((torch.zeros(4, 600_000),), {}) is None


class TestCheckFunction:
    """The same for a function of the user's, with all elements of its inputs."""

    def test_a_wrong_function_fails_and_a_right_one_passes(self):
        assert manager().debugging.check_function(lambda x: Cube.apply(x, 3), ROWS)["passed"] is True
        result = manager().debugging.check_function(lambda x: Cube.apply(x, 2), ROWS)
        assert result["failures"][0]["input"] == "input 0"

    def test_integers_are_passed_on_and_several_outputs_are_told_apart(self):
        def function(x, index):
            return x.sin(), Cube.apply(x, 2)[index]

        result = manager().debugging.check_function(function, [values(3), torch.tensor([1])])

        assert [failure["output"] for failure in result["failures"]] == [1]

    def test_a_wrong_derivative_in_forward_mode_is_found_where_reverse_mode_is_right(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return 2 * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient

            @staticmethod
            def jvp(ctx, tangent):
                return 3 * tangent

        assert manager().debugging.check_function(Double.apply, values(2))["passed"]
        (failure,) = manager().debugging.check_function(Double.apply, values(2), forward_mode=True)["failures"]
        assert failure["mode"] == "forward"
        assert (failure["analytical"], failure["numerical"]) == (pytest.approx(3), pytest.approx(2))

    @pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
    def test_sparse_inputs(self, layout):
        matrix = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(layout=layout)

        result = manager().debugging.check_function(lambda sparse, dense: sparse @ dense, [matrix, values(2, 2)])

        assert (result["passed"], result["inputs"]) == (True, ["input 0", "input 1"])

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [([1.0], "input 0 .* is 1.0"), (1.0, "input 0 .* is 1.0"), ([torch.tensor(1)], "torch.int64")],
    )
    def test_inputs_that_have_no_gradient_are_refused(self, inputs, message):
        with pytest.raises(StabilityError, match=message):
            manager().debugging.check_function(torch.sin, inputs)


@settings(max_examples=examples(50), deadline=None)
@given(shape=st.lists(st.integers(1, 5), max_size=3), elements=st.integers(1, 9), seed=st.integers(0, 99))
def test_chosen_elements_put_back_make_the_whole_tensor(shape, elements, seed):
    tensor = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
    value = CheckedValue("x", tensor, elements=elements, seed=seed)

    part = value.chosen_elements()

    assert part.numel() == min(elements, tensor.numel())
    assert torch.equal(tensor.double(), value.put(part))
    assert [float(tensor[tuple(value.index_of(position))]) for position in range(part.numel())] == part.tolist()
