"""What is expected of ``torch.amp.GradScaler``; needs nothing but torch and the module that it is about."""

import math

import pytest
import torch

from debuggers.torch_internals import grad_scaler, tensors


@pytest.fixture
def training():
    """A scaler at work on the host, an optimizer, and a weight."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    return torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1000), optimizer, weight


def test_the_scale_is_made_with_the_first_use(training):
    scaler, _, weight = training
    assert grad_scaler.scale_of(scaler) is None
    assert grad_scaler.first_scale_of(scaler) == 64

    scaler.scale(weight.sum())

    scale = grad_scaler.scale_of(scaler)
    assert (scale.dim(), scale.dtype, float(scale)) == (0, torch.float32, 64)
    assert vars(scaler)[grad_scaler.SCALE] is scale


def test_a_disabled_scaler_has_no_scale():
    assert grad_scaler.scale_of(torch.amp.GradScaler("cpu", enabled=False)) is None


def test_whether_unscaling_counts_as_a_change_is_known(training):
    scaler, optimizer, weight = training
    scaler.scale(weight.sum()).backward()
    before = tensors.version_of(weight.grad)
    scaler.unscale_(optimizer)

    assert tensors.version_of(weight.grad) - before == grad_scaler.changes_by_unscaling()


def test_an_update_changes_the_scale_in_place_and_its_version(training):
    scaler, optimizer, weight = training
    scaler.scale(weight.sum()).backward()
    scale = grad_scaler.scale_of(scaler)
    before = tensors.version_of(scale)
    weight.grad.fill_(math.inf)
    scaler.step(optimizer)
    scaler.update()

    assert grad_scaler.scale_of(scaler) is scale
    assert tensors.version_of(scale) > before
    assert float(scale) == 32


def test_all_that_changes_of_a_scaler_is_in_these_tensors(training):
    scaler, _, weight = training
    assert grad_scaler.tensors_of(None) == grad_scaler.tensors_of(scaler) == {}
    scaler.scale(weight.sum())
    scale, growth = grad_scaler.tensors_of(scaler).values()
    scale.fill_(8)
    growth.fill_(3)
    state = scaler.state_dict()
    assert state["scale"] == 8
    assert state["_growth_tracker"] == 3


def test_an_optimizer_is_known_once_it_was_unscaled_and_forgotten_with_the_update(training):
    scaler, optimizer, weight = training
    scaler.scale(weight.sum()).backward()
    assert not grad_scaler.optimizer_states(scaler).get(id(optimizer))

    scaler.unscale_(optimizer)
    assert grad_scaler.is_unscaled(grad_scaler.optimizer_states(scaler)[id(optimizer)])
    scaler.step(optimizer)
    assert grad_scaler.is_unscaled(grad_scaler.optimizer_states(scaler)[id(optimizer)])
    scaler.update()
    assert not any(map(grad_scaler.is_unscaled, grad_scaler.optimizer_states(scaler).values()))


def test_a_scaler_that_is_put_aside_unscales_again_and_gets_its_table_back(training):
    scaler, optimizer, weight = training
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    known = grad_scaler.optimizer_states(scaler)

    with grad_scaler.scaler_aside(scaler):
        assert not grad_scaler.optimizer_states(scaler)
        assert id(optimizer) in known
        scaler.unscale_(optimizer)  # a second time it would raise

    assert grad_scaler.optimizer_states(scaler) is known
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


def test_a_fused_optimizer_has_scale_and_overflow_for_its_step_only():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    seen = []

    def hook(stepping, args, kwargs):
        seen.append([float(handed) for handed in grad_scaler.handed_to(stepping)])

    optimizer.register_step_pre_hook(hook)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)

    assert seen == [[64.0, 0.0]]
    assert grad_scaler.handed_to(optimizer) is None
    assert grad_scaler.handed_to(None) is None


def test_unscaling_changes_gradients_once_in_a_pass(training):
    scaler, optimizer, weight = training
    assert grad_scaler.unscaling_changes(None, optimizer) == 0
    assert grad_scaler.unscaling_changes(torch.amp.GradScaler("cpu", enabled=False), optimizer) == 0
    scaler.scale(weight.sum()).backward()
    assert grad_scaler.unscaling_changes(scaler, optimizer) == 0
    scaler.unscale_(optimizer)
    assert grad_scaler.unscaling_changes(scaler, optimizer) == grad_scaler.changes_by_unscaling()
    scaler.step(optimizer)
    scaler.update()
    assert grad_scaler.unscaling_changes(scaler, optimizer) == 0
