"""Binary cross entropies that a loop writes down, with the side of each of both summands."""

import pytest
import torch
from torch.nn.functional import logsigmoid

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

T = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.3])


def viewed(loss_of):
    outputs = torch.linspace(-1, 2, 5).requires_grad_() * 1
    return loss_view(loss_of(outputs), output_nodes([outputs]))


@pytest.mark.parametrize("loss_of", [
    pytest.param(lambda z: -(T * logsigmoid(z) + (1 - T) * logsigmoid(z)).mean(), id="twice the same"),
    pytest.param(lambda z: (-T * logsigmoid(z) + (1 - T) * logsigmoid(-z)).mean(), id="a minus sign too few"),
    pytest.param(lambda z: -(T * z.sigmoid().log() - (1 - T) * (1 - z.sigmoid()).log()).mean(), id="one too many"),
    pytest.param(lambda z: -(T * (z.sigmoid() + 1e-8).log() + (1 - T) * z.sigmoid().log()).mean(), id="without 1 -"),
])  # fmt: skip
def test_summands_that_draw_to_the_same_side_are_told(loss_of):
    assert viewed(loss_of).facts.one_sided


@pytest.mark.parametrize("loss_of", [
    pytest.param(lambda z: -(T * logsigmoid(z) + (1 - T) * logsigmoid(-z)).mean(), id="logits"),
    pytest.param(lambda z: -(T * z.sigmoid().log() + (1 - T) * (1 - z.sigmoid()).log()).mean(), id="probabilities"),
    pytest.param(lambda z: (-T * z.sigmoid().log() - (1 - T) * (1 - z.sigmoid() + 1e-8).log()).mean(), id="minus"),
    pytest.param(lambda z: -((1 - T) * logsigmoid(z) + T * logsigmoid(-z)).mean(), id="the other targets"),
    pytest.param(lambda z: (T * logsigmoid(z) + (1 - T) * logsigmoid(-z)).mean(), id="the wrong sign"),
    pytest.param(lambda z: -(T * logsigmoid(z) + (2 - T) * logsigmoid(z)).mean(), id="other weights"),
    pytest.param(lambda z: -(T * logsigmoid(z - 1) + (1 - T) * logsigmoid(1 - z)).mean(), id="differences"),
    pytest.param(lambda z: -(T * z[:5].sigmoid().log() + (1 - T) * z.flip(0).sigmoid().log()).mean(), id="two scores"),
])  # fmt: skip
def test_summands_that_draw_to_both_sides_are_not(loss_of):
    assert not viewed(loss_of).facts.one_sided


@pytest.mark.parametrize("loss_of", [
    pytest.param(lambda z: -((1 - T) * logsigmoid(-z) + T * logsigmoid(z)).mean(), id="logits"),
    pytest.param(lambda z: -((1 - T) * (1 - z.sigmoid()).log() + T * z.sigmoid().log()).mean(), id="probabilities"),
    pytest.param(lambda z: -(T * logsigmoid(z) + (1 - T) * logsigmoid(-z)).mean(), id="the usual order"),
    pytest.param(lambda z: ((T - 1) * logsigmoid(-z) - T * logsigmoid(z)).mean(), id="minus"),
])  # fmt: skip
def test_targets_are_those_of_the_side_that_outputs_are_on(loss_of):
    assert torch.allclose(viewed(loss_of).targets, T)


@pytest.mark.parametrize(("second", "is_one_sided"), [(0, True), (1, False)])
def test_columns_that_are_selected_behind_the_sigmoid_are_scores_of_their_own(second, is_one_sided):
    outputs = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)).requires_grad_() * 1
    p = outputs.sigmoid()
    loss = -(T * p[:, 0].log() + (1 - T) * p[:, second].log()).mean()
    assert loss_view(loss, output_nodes([outputs])).facts.one_sided is is_one_sided
