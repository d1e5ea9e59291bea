"""Which modules act as in training."""

import pytest
from torch import nn

from debuggers.signals.modes import acts_in_training, evaluates_as_in_training, is_in_training_mode


@pytest.mark.parametrize(("module", "acts"), [
    (nn.Dropout(0.5), True), (nn.Dropout(0.0), False), (nn.Dropout(0.5).eval(), False), (nn.BatchNorm1d(2), True),
    (nn.BatchNorm1d(2, track_running_stats=False), False), (nn.Linear(2, 2), False),
])  # fmt: skip
def test_dropouts_and_batch_norms_act_otherwise_in_training(module, acts):
    assert acts_in_training(module) == acts


def test_a_mode_that_only_the_root_has_does_not_reach_its_children():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    model.training = False
    assert is_in_training_mode(model)


def test_dropouts_alone_in_training_mode_are_sampled_from_on_purpose():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).eval()
    model[1].train()
    assert not is_in_training_mode(model)
    assert not is_in_training_mode(nn.Linear(2, 2).eval())


@pytest.mark.parametrize(("momentum", "acts"), [(0.1, True), (None, False)])
def test_a_batch_norm_that_averages_since_its_reset_computes_its_statistics(momentum, acts):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=momentum), nn.Dropout(0.5))
    assert evaluates_as_in_training(model) == acts
    assert not evaluates_as_in_training(model.eval())
