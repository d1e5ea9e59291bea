"""Weights that a model multiplies with and does not know."""

import torch
from torch import nn

from debuggers.observed_training.graphs.loss_view import output_nodes
from debuggers.observed_training.graphs.unregistered_weights import UnregisteredWeights

NONE = ("", "")


class Holder(nn.Module):
    """A head behind layers of a plain list."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = layers
        self.head = nn.Linear(4, 3)

    def forward(self, values):
        for layer in self.layers:
            values = layer(values)
        return self.head(values)


def looks(model, inputs, between=lambda: None, held=(), after=lambda outputs: outputs):
    """What is found at three looks."""
    weights, found = UnregisteredWeights(model), []
    for _ in range(3):
        outputs = model(inputs)
        loss = after(outputs).square().mean()
        found.append(weights.look(loss.grad_fn, output_nodes([outputs]), inputs, held))
        between()
    return found


def test_layers_of_a_plain_list_are_found_at_the_second_look():
    model = Holder(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 4))

    assert looks(model, torch.ones(5, 1, 3, 3)) == [None, *[("(4, 8), (2, 1, 2, 2)", "")] * 2]


def test_a_tensor_that_is_no_parameter_is_found():
    weight = torch.ones(6, 4, requires_grad=True)

    assert looks(Holder(lambda x: x @ weight), torch.ones(5, 6))[1:] == [("(6, 4)", "")] * 2


def test_what_is_registered_held_frozen_or_trained_by_others_is_none():
    layer = nn.Linear(6, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 6)).sum().backward()
    inputs = torch.ones(5, 6, requires_grad=True)

    assert looks(nn.Sequential(layer, nn.Linear(4, 3)), inputs) == [NONE] * 3
    assert looks(Holder(layer), inputs, held=set(map(id, layer.parameters()))) == [NONE] * 3
    assert looks(Holder(layer), inputs, between=optimizer.step) == [None, NONE, NONE]
    assert looks(Holder(nn.Linear(6, 4).requires_grad_(False)), inputs) == [NONE] * 3


def test_other_models_before_and_behind_are_left_out():
    model, other = Holder(), nn.Linear(3, 4)

    assert looks(model, other(torch.ones(5, 3))) == [NONE] * 3
    assert looks(model, torch.ones(5, 4), after=other) == [NONE] * 3


def test_layers_that_are_made_in_forward_are_new_at_each_look():
    model = Holder(lambda values: nn.Linear(6, 4)(values).relu())

    assert looks(model, torch.ones(5, 6))[1:] == [("", "(4, 6)")] * 2


def test_tensors_that_are_computed_anew_and_layers_taken_in_turn_are_none():
    weight, layers = torch.ones(6, 4), [nn.Linear(6, 4), nn.Linear(6, 4)]

    assert looks(Holder(lambda values: values @ (2 * weight).requires_grad_()), torch.ones(5, 6))[1:] == [NONE] * 2

    def first(values):
        return layers[0](values)

    assert looks(Holder(first), torch.ones(5, 6), between=layers.reverse)[1:] == [NONE] * 2
