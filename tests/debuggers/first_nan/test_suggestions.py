"""What to do fits the operator and its inputs, and the loss's own operators are found in its graph."""

import pytest
import torch
from planted.faults import FAULTS, plant
from torch import nn

from debuggers.first_nan.loss_graph import loss_candidates
from debuggers.first_nan.operator_kinds import kind_of, operator_of_node, plain_name
from debuggers.first_nan.replay import replay_closure
from debuggers.torch_internals.autograd import next_node_number

FITTING = {
    "log of 0": "log of 0 is -inf",
    "root at 0": "slope at 0 is infinite",
    "0 / 0": "division by 0",
    "float16 convolution": "beyond 65504",
    "exp overflows": "exp overflows",
    "NaN in the data": "the input data are not finite already",
    "blown-up weights": "parameter head.weight has grown to 3e+37: the learning rate is too high",
    "NaN in a weight": "parameter blocks.1.weight was not finite before this step",
    "all masked": "a row is masked completely",
    "no target": "every target has the ignored index",
    "cast to float16": "use bfloat16",
    "acos at 1": "its slope at both ends infinite",
    "deviation of one": "fewer than two values",
    "product with the mask": "0 * inf",
}


@pytest.mark.filterwarnings("ignore:std..:UserWarning")
@pytest.mark.parametrize("title", FITTING)
def test_a_suggestion_fits(title):
    (fault,) = (fault for fault in FAULTS if fault.title == title)
    model, _, closure = plant(fault)

    assert FITTING[title] in replay_closure(model, closure).origin.suggestion.replace("2.99e+37", "3e+37")


@pytest.mark.parametrize(
    ("value", "function", "word"),
    [
        (1e10, lambda x: x.pow(5), "scale the values down"),
        (1e10, lambda x: x / 1e-30, "scale the values down"),
        (1e20, lambda x: x.square(), "values have grown to 1e+20"),
        (1.0, lambda x: x.half() * 1e6, "float16"),
        (1.0, lambda x: x * torch.inf, "other is not finite"),
        (1e9, lambda x: x.cumprod(0), "add logarithms instead"),
        (1.0, lambda x: x.masked_fill(x > 0, torch.inf), "an intended infinity reaches the loss"),
    ],
)
def test_overflows(value, function, word):
    factor = nn.Parameter(torch.full((9,), value))

    assert word in replay_closure(nn.Identity(), lambda: function(factor * 1).sum()).origin.suggestion


def test_the_operators_of_a_loss_are_listed_without_those_of_the_model():
    outputs = torch.ones(3, requires_grad=True).log().exp()
    first = next_node_number()
    loss = (outputs.sqrt() / 2 + outputs).pow(2).sum()

    assert loss_candidates(loss, first) == ["aten::sqrt", "aten::div", "aten::pow"]
    loss.backward()
    assert loss_candidates(loss, first) == ["aten::sqrt", "aten::div", "aten::pow"]
    assert loss_candidates(loss.detach(), first) == []


@pytest.mark.parametrize(
    ("node", "operator"),
    [
        ("LogBackward0", "aten::log"),
        ("NllLossBackward0", "aten::nll_loss"),
        ("Log1PBackward0", "aten::log1p"),
        ("NllLoss2DBackward0", "aten::nll_loss2d"),
        ("MyOwnBackward", "aten::my_own"),
    ],
)
def test_operators_of_nodes(node, operator):
    assert operator_of_node(node) == operator


def test_what_is_known_of_operators():
    aten = torch.ops.aten
    assert plain_name("aten::log_") == "log"
    assert kind_of(aten.t.default).is_view
    assert kind_of(aten.add_.Tensor).written == ("self",)
    assert kind_of(aten.copy_.default).overwrites
    assert kind_of(aten.add.out).overwrites
    assert not kind_of(aten.add_.Tensor).overwrites
    assert kind_of(aten.masked_fill.Scalar).places
    assert kind_of(aten.empty_like.default).allocates
    assert kind_of(aten.log.default).pointwise
    assert not kind_of(aten._softmax.default).pointwise
