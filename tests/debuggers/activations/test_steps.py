"""What is recorded of a step are the passes that led to it: none that raised, was given up or was a validation."""

import gc

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.activations.monitor import ActivationMonitor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.fails = nn.Linear(4, 8), nn.Linear(8, 2), None

    def forward(self, x):
        hidden = self.first(x)
        if self.fails:
            raise self.fails
        return self.second(hidden)


class Loop:
    """Steps whose forward passes are counted by their rows."""

    def __init__(self, **options):
        self.model, self.emitter = Model(), MemoryEmitter()
        self.monitor = ActivationMonitor(self.model, emitter=self.emitter, on_error="raise", **options)

    def forward(self, rows, *, backward=True):
        loss = self.model(torch.randn(rows, 4)).square().mean()
        if backward:
            loss.backward()
        return loss

    def recorded(self, group="activations"):
        """The rows of each step and layer."""
        self.monitor.close()
        assert hook_count(self.model) == 0
        found = {}
        for artifact in self.emitter.artifacts:
            if artifact.kind == "histogram" and artifact.name.startswith(f"{group}/"):
                layer = artifact.name.partition("/")[2]
                rows = artifact.count // (8 if layer.startswith("first") else 2)
                found.setdefault(artifact.step, {})[layer] = rows
        return found


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_pass_that_raised_is_dropped_and_its_retry_recorded(error, gradients):
    loop = Loop(gradients=gradients)
    loop.monitor.expect(3)
    loop.forward(2)  # a micro-batch that went well
    loop.model.fails = error
    with pytest.raises(type(error)):
        loop.forward(50)
    loop.model.fails = None
    loop.forward(5)
    loop.monitor.detach(3)
    assert loop.recorded() == {3: {"first": 7, "second": 7}}
    if gradients:
        assert loop.recorded("activation_gradients") == {3: {"first": 7, "second": 7}}


def test_a_pass_that_raised_last_is_dropped():
    loop = Loop()
    loop.monitor.expect(0)
    loop.forward(2)
    loop.model.fails = ValueError()
    with pytest.raises(ValueError):
        loop.forward(50)
    loop.monitor.detach(0)
    assert loop.recorded() == {0: {"first": 2, "second": 2}}


def test_a_backward_that_raised_gives_up_the_step():
    loop = Loop()
    loop.monitor.expect(0)
    output = loop.model(torch.randn(50, 4))
    loop.model.first.weight.register_hook(fail := lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        output.sum().backward()
    assert fail
    loop.model.zero_grad()
    loop.model.first.weight._backward_hooks.clear()
    loop.forward(3)
    loop.monitor.detach(0)
    assert loop.recorded() == {0: {"first": 3, "second": 3}}


def test_a_step_whose_gradients_were_thrown_away_is_not_recorded():
    loop = Loop(gradients=True)
    loop.monitor.expect(0)
    loop.forward(50)
    loop.model.zero_grad()
    loop.forward(3)
    loop.forward(4)
    loop.monitor.detach(0)
    assert loop.recorded() == {0: {"first": 7, "second": 7}}
    assert loop.recorded("activation_gradients") == {0: {"first": 7, "second": 7}}


def test_several_passes_that_make_one_loss_are_all_recorded():
    loop = Loop()
    loop.monitor.expect(0)
    first, second = loop.model(torch.randn(3, 4)), loop.model(torch.randn(4, 4))
    (first.sum() * second.sum()).backward()
    loop.monitor.detach(0)
    assert loop.recorded() == {0: {"first": 7, "second": 7}}


@pytest.mark.parametrize("held", [False, True])
def test_a_validation_with_gradients_on_is_not_taken_for_the_step(held):
    loop = Loop()
    results = []
    for step in range(3):
        loop.monitor.expect(step)
        loop.model.eval()
        results.append(loop.forward(100, backward=False))
        if not held:
            results.clear()
            gc.collect()
        loop.model.train()
        loop.forward(2 + step)
        loop.model.zero_grad()
        loop.monitor.detach(step)
    assert loop.recorded() == {step: {"first": 2 + step, "second": 2 + step} for step in range(3)}


def test_a_mode_that_changes_for_good_is_followed_after_a_step():
    loop = Loop()
    for step in range(4):
        loop.monitor.expect(step)
        loop.model.train(step == 0)
        loop.forward(2)
        loop.model.zero_grad()
        loop.monitor.detach(step)
    assert sorted(loop.recorded()) == [0, 2, 3]


def test_a_forgotten_step_is_expected_again():
    loop = Loop(gradients=True)
    loop.monitor.expect(0)
    loop.forward(50)
    loop.monitor.forget()
    assert loop.monitor.lost_outputs == 0
    loop.forward(3)
    loop.monitor.detach(0)
    assert loop.recorded() == {0: {"first": 3, "second": 3}}
    assert loop.recorded("activation_gradients") == {0: {"first": 3, "second": 3}}


def test_passes_of_a_step_that_the_caller_announced_are_all_its_own():
    loop = Loop()
    with loop.monitor.step(0):
        loop.forward(3, backward=False)
        loop.forward(4, backward=False)
    assert loop.recorded() == {0: {"first": 7, "second": 7}}


def test_a_model_that_is_a_single_layer_is_recorded_without_a_word(caplog):
    model, emitter = nn.Linear(4, 2), MemoryEmitter()
    monitor = ActivationMonitor(model, emitter=emitter, on_error="raise")
    monitor.expect(0)
    model(torch.ones(3, 4)).sum().backward()
    monitor.detach(0)
    monitor.close()

    assert [item.count for item in emitter.artifacts if item.kind == "histogram"] == [6]
    assert caplog.text == ""


def test_calls_within_a_transformation_are_left_out():
    loop = Loop(gradients=True)
    parameters = {name: one.detach() for name, one in loop.model.named_parameters()}

    def loss(parameters, row):
        return torch.func.functional_call(loop.model, parameters, (row[None],)).square().mean()

    loop.monitor.expect(0)
    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, torch.randn(3, 4))
    loop.forward(5)
    loop.monitor.detach(0)

    assert loop.recorded() == {0: {"first": 5, "second": 5}}
    assert not loop.monitor.failures


def test_a_disabled_scaler_is_none():
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    loop = Loop(gradients=True, scaler=scaler)
    loop.monitor.expect(0)
    loop.forward(5)
    loop.monitor.detach(0)
    assert loop.recorded("activation_gradients") == {0: {"first": 5, "second": 5}}


def test_outputs_without_plain_values_are_none():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    monitor = ActivationMonitor(model, on_error="raise", gradients=True)
    monitor.expect(0)
    nested = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=torch.jagged)
    model(nested).values().square().mean().backward()
    monitor.detach(0)

    assert monitor.never_seen == ["0", "1"]
    monitor.close()
