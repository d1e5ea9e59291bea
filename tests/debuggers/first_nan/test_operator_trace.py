"""Wherever a fault lies among sound layers and decoys, its own module is named, in both passes."""

import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from planted.networks import Decoys
from torch import nn
from torch_parts import Applies

from debuggers.first_nan.replay import replay_closure

FORWARD = {
    "aten::log": lambda x: (x - 1e3).log(),
    "aten::sqrt": lambda x: (x - 1e3).sqrt(),
    "aten::div": lambda x: x / torch.zeros(()),
    "aten::exp": lambda x: (x + 1e3).exp(),
    "aten::pow": lambda x: (x.abs() + 1e30) ** 2,
    "aten::_softmax": lambda x: x.masked_fill(torch.ones(8, dtype=torch.bool), -torch.inf).softmax(1),
    "aten::cumsum": lambda x: (x.abs() + 3e38).cumsum(1),
    "aten::acos": lambda x: (x + 1e3).acos(),
    "aten::addmm": lambda x: torch.addmm(x, x * 0 + 1e30, torch.full((8, 8), 1e30)),
}
BACKWARD = {
    "aten::sqrt": lambda x: x + (x * 0).sqrt(),
    "aten::pow": lambda x: x + (x * 0) ** 0.25,
    "aten::acos": lambda x: x + (x * 0 + 1).acos(),
    "aten::log": lambda x: x + torch.where(x < -1e3, (x * 0).log(), 0),
    "aten::atanh": lambda x: x + torch.where(x < -1e3, (x * 0 + 1).atanh(), 0),
}
FAULTS = [("forward", name) for name in FORWARD] + [("backward", name) for name in BACKWARD]


class InPlace(nn.Module):
    """Changes its values in place, in parts and through views."""

    def forward(self, values):
        values = values.clone()
        values[:, :4].mul_(0.5).add_(1)
        values.T[5].neg_()
        return values


LAYERS = [
    lambda: nn.Linear(8, 8),
    lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh()),
    lambda: nn.LayerNorm(8),
    lambda: nn.BatchNorm1d(8),
    lambda: nn.Dropout(0.3),
    Decoys,
    InPlace,
]


@settings(max_examples=examples(60), deadline=None)
@given(
    before=st.lists(st.sampled_from(LAYERS), max_size=4),
    after=st.lists(st.sampled_from(LAYERS), max_size=4),
    fault=st.sampled_from(FAULTS),
)
def test_the_fault_is_named_among_sound_layers(before, after, fault):
    direction, operator = fault
    torch.manual_seed(0)
    function = (FORWARD if direction == "forward" else BACKWARD)[operator]
    first = nn.Linear(8, 8)  # has a gradient, so that there is something to go wrong in a backward pass
    model = nn.Sequential(first, *(make() for make in before), Applies(function), *(make() for make in after))
    inputs = torch.randn(6, 8)

    origin = replay_closure(model, lambda: model(inputs).square().mean()).origin

    assert (origin.module, origin.operator, origin.direction) == (f"{len(before) + 1}", operator, direction)


@settings(max_examples=examples(30), deadline=None)
@given(layers=st.lists(st.sampled_from(LAYERS), max_size=6))
def test_sound_layers_and_decoys_have_no_answer(layers):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), *(make() for make in layers))
    inputs = torch.randn(6, 8)

    assert replay_closure(model, lambda: model(inputs).square().mean()).origin is None


def test_parameters_that_a_forward_pass_changes_are_put_back():
    model = nn.Embedding(5, 3, max_norm=0.1)
    before = model.weight.detach().clone()

    replay_closure(model, lambda: model(torch.tensor([1, 2])).log().sum())

    assert torch.equal(model.weight, before)


def test_a_weights_gradient_has_no_datapoints_even_if_it_has_as_many_rows():
    model = nn.Linear(4, 6)
    nn.init.zeros_(model.weight)
    inputs = torch.full((6, 4), 1e10)

    origin = replay_closure(model, lambda: 1e29 * model(inputs).sum()).origin

    assert (origin.operator, origin.direction, origin.rows) == ("aten::addmm", "backward", None)
