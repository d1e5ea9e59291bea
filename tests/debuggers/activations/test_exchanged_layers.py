"""Layers that are exchanged, added or removed in the middle of a training are followed."""

import torch
from module_hooks import hook_count
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.activations.monitor import ActivationMonitor
from debuggers.first_nan.flight_recorder import NonFiniteWatch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, values):
        return self.head(self.body(values))


def constant(value):
    layer = nn.Linear(8, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.fill_(value)
    return layer


def norms(emitter, name):
    """The largest output by step, of a layer whose outputs are all alike."""
    found = [item for item in emitter.artifacts if item.name == f"activation_norm/{name}"]
    return {item.step: item.value for item in found}


def run(model, change, *, steps=6, at=3, **settings):
    """Trains without learning, and changes the model before a step."""
    emitter = MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    options = {"activations": True, "max_overhead": None, "run": emitter, **settings}
    with stepscope.watch(model, optimizer, **options) as session:
        for step in range(steps):
            if step == at:
                change(model)
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    return session, emitter


def test_a_new_head_is_measured_in_the_place_of_the_old_one():
    model = Net()
    model.head = old = constant(1.0)

    session, emitter = run(model, lambda model: setattr(model, "head", constant(10.0)))

    assert [round(value / 2**0.5) for value in norms(emitter, "head").values()] == [1, 1, 1, 10, 10, 10]
    assert list(norms(emitter, "head")) == list(range(6))
    assert session.report().coverage.unseen_layers == ()
    assert hook_count(old) == hook_count(model.head) == hook_count(model) == 0


def test_a_layer_of_a_container_is_followed_and_so_is_what_is_added():
    model = Net()

    def change(model):
        model.body[1] = nn.Tanh()
        model.body.append(nn.Linear(8, 8))

    session, emitter = run(model, change)

    assert list(norms(emitter, "body.0")) == list(norms(emitter, "body.1")) == list(range(6))
    assert list(norms(emitter, "body.2")) == [3, 4, 5]
    assert session.activation_monitor.chosen == ["body.0", "body.1", "body.2", "head"]


def test_a_chosen_layer_that_is_gone_leaves_the_others_measured():
    model = Net()

    def change(model):
        model.body = nn.Sequential(nn.Linear(4, 8))

    session, emitter = run(model, change, activations=["body.1", "head"])

    assert list(norms(emitter, "body.1")) == [0, 1, 2]
    assert list(norms(emitter, "head")) == list(range(6))
    assert not session.report().failures


def test_a_new_head_that_no_step_measured_was_never_seen():
    model = Net()
    schedule = stepscope.Schedule(every=2)

    session, emitter = run(model, lambda model: setattr(model, "head", constant(10.0)), steps=4, schedule=schedule)

    assert list(norms(emitter, "head")) == [0, 2]
    assert session.report().coverage.unseen_layers == ("head",)


def test_units_of_an_exchanged_layer_are_counted_anew():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    monitor = ActivationMonitor(model, on_error="raise")
    with torch.no_grad():
        model[0].bias.fill_(-100)
    with monitor.step(0):
        model(torch.ones(5, 4))
    assert monitor.unit_activity()["1"].dead_fraction == 1
    model[1] = nn.ReLU()
    with torch.no_grad():
        model[0].bias.fill_(100)
    with monitor.step(1):
        model(torch.ones(5, 4))

    activity = monitor.unit_activity()["1"]
    assert (activity.inputs, activity.dead_fraction) == (5, 0)
    monitor.close()


def test_parts_that_are_called_without_their_model_are_followed_from_the_next_step_on():
    model = Net()
    emitter = MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with stepscope.watch(model, optimizer, activations=True, max_overhead=None, run=emitter):
        for step in range(6):
            if step == 3:
                model.body, model.head = nn.Sequential(nn.Linear(4, 8)), constant(10.0)
            model.head(model.body(torch.ones(1, 4))).sum().backward()
            optimizer.step()

    assert list(norms(emitter, "head")) == [0, 1, 2, 4, 5]


def test_the_flight_recorder_follows():
    model = Net()
    with NonFiniteWatch(model) as watch:
        model(torch.ones(2, 4))
        watch.end_step(0)
        old, model.head = model.head, constant(7.0)
        model(torch.ones(2, 4))
        assert watch.history("head")[-1]["mean"] == 7.0
        assert hook_count(old) == 0
        watch.end_step(1)
        model.body.append(nn.Identity())
        model(torch.ones(2, 4))
        assert watch.names == ("body.0", "body.1", "body.2", "head")
        assert [entry["step"] for entry in watch.history("body.2")] == [2]
    assert hook_count(model.head) == hook_count(model) == 0
