"""One of several inputs that is one number throughout, and what may well be so."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.signals.single_values import MOST_PASSES, SingleValues

VARYING = torch.arange(32.0).reshape(8, 4)


def first_of(*tensors, outputs=None):
    found = SingleValues(tensors)
    found.see_outputs(outputs)
    return {name.removeprefix("inputs/one_value"): float(value) for name, value in found.statistics().items()}


@pytest.mark.parametrize(
    "lost", [torch.zeros(8, 6), torch.full((8, 1, 3, 3), 0.5), torch.ones(8, 3, dtype=torch.int64)]
)
@pytest.mark.parametrize("place", [0, 1])
def test_an_input_of_one_number_is_told_with_its_place(lost, place):
    tensors = [VARYING, VARYING[:, :1]]
    tensors.insert(place, lost)
    expected = {"": float(lost.reshape(-1)[0]), "_at": place, "_width": lost.shape[-1], "_apart": 1}
    assert first_of(*tensors, outputs=torch.zeros(8, 10)) == expected


@pytest.mark.parametrize("tensors", [
    [torch.zeros(8, 6)],  # of one input other signals tell
    [torch.zeros(8, 6), torch.arange(8)],  # nodes, and the graph of each
    [VARYING, torch.ones(8, 2)],  # a height and a width
    [VARYING, torch.ones(8, 6, dtype=torch.bool)],
    [VARYING, torch.zeros(8, 8, 16)],  # states of eight layers
    [VARYING, torch.zeros(3, 8, 16)],
    [VARYING, torch.ones(8, 4, dtype=torch.int64)],  # a mask, or kinds of tokens
    [VARYING[..., None], torch.ones(8, 1, 4, 4)],
    [VARYING[:1], torch.zeros(1, 6)],
    [VARYING, torch.tensor(2.0)],
])  # fmt: skip
def test_what_may_be_meant_is_left_out(tensors):
    assert math.isnan(first_of(*tensors).get("", math.nan))


@pytest.mark.parametrize("outputs", [
    (torch.zeros(8, 2), torch.zeros(8, 6)),  # a state
    torch.zeros(8, 6, 3),  # queries
    torch.zeros(8, 4),  # the model makes more of what it is given
])  # fmt: skip
def test_what_is_as_long_as_an_output_is_left_out(outputs):
    assert math.isnan(first_of(VARYING, torch.zeros(8, 6), outputs=outputs)[""])
    assert first_of(VARYING, torch.zeros(8, 6), outputs=torch.zeros(8, 2))[""] == 0


def test_inputs_of_one_shape_and_those_of_nodes_are_not_apart():
    assert first_of(VARYING, torch.zeros(8, 4))["_apart"] == 0
    assert first_of(torch.zeros(8, 5), torch.eye(8))["_apart"] == 0
    assert first_of(torch.zeros(8, 5), torch.ones(8, 7) * VARYING[:, :1])["_apart"] == 1


@pytest.mark.parametrize("at", [0, 1, -1])
def test_one_other_value_is_enough(at):
    lost = torch.zeros(8, 600)
    lost.view(-1)[at] = 1
    assert math.isnan(first_of(VARYING, lost)[""])


@pytest.mark.parametrize(("later", "is_one"), [
    ([torch.zeros(8, 6)], True), ([torch.zeros(3, 6)], True), ([torch.ones(8, 6)], False), ([torch.zeros(8, 5)], False),
    ([torch.randn(8, 6)], False), ([], False),
])  # fmt: skip
def test_a_further_pass_may_have_other_values(later, is_one):
    found = SingleValues([VARYING, torch.zeros(8, 6)])
    found.see_further((VARYING, *later))
    assert math.isnan(float(found.statistics()["inputs/one_value"])) != is_one


def test_of_many_passes_nothing_is_said():
    found = SingleValues([VARYING, torch.zeros(8, 6)])
    for passes in range(2, MOST_PASSES + 2):
        found.see_further({"x": VARYING, "z": torch.zeros(8, 6)})
        assert math.isnan(float(found.statistics()["inputs/one_value"])) == (passes > MOST_PASSES)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, z):
        return self.last(torch.relu(self.first(x) + self.second(z)))


@pytest.mark.parametrize(("scales", "is_one"), [((0,), True), ((0, 0), True), ((0, 1), False), ((1,), False)])
def test_an_input_is_lost_if_it_is_in_all_passes_of_a_step(scales, is_one):
    torch.manual_seed(0)
    model = TwoInputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(12):
            for scale in scales:
                outputs = model(torch.randn(16, 4), z=torch.randn(16, 6) * scale)
                functional.cross_entropy(outputs, torch.randint(3, (16,))).backward()
            optimizer.step()
            optimizer.zero_grad()
            session.step()
    found = session.evidence()["inputs/one_value"].values

    assert len(found)
    assert (found == 0).all() if is_one else np.isnan(found).all()
