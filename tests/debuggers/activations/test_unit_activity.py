"""Units are counted along the right dimension, and dead ones are found."""

import numpy as np
import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.activations.monitor import ActivationMonitor
from debuggers.activations.unit_activity import WINDOW, UnitActivity, unit_dimension


def activity(model, *inputs, **options):
    monitor = ActivationMonitor(model, on_error="raise", **options)
    for step, x in enumerate(inputs):
        with monitor.step(step):
            model(x)
    monitor.close()
    return monitor.unit_activity()


def fractions(output, dimension):
    return (output > 0).double().movedim(dimension, 0).reshape(output.shape[dimension], -1).mean(1).numpy()


@pytest.mark.parametrize(
    ("layer", "shape", "dimension"),
    [
        (nn.Linear(6, 5), (7, 6), 1),
        (nn.Linear(6, 5), (6,), 0),
        (nn.Linear(6, 5), (7, 3, 6), 2),
        (nn.Linear(6, 5), (7, 3, 2, 6), 3),
        (nn.Conv1d(6, 5, 2), (7, 6, 4), 1),
        (nn.Conv2d(6, 5, 2), (7, 6, 4, 4), 1),
        (nn.Conv2d(6, 5, 2), (6, 4, 4), 0),
        (nn.Conv3d(6, 5, 2), (2, 6, 4, 4, 4), 1),
        (nn.Sequential(nn.Conv1d(6, 5, 2), nn.BatchNorm1d(5)), (7, 6, 4), 1),
        (nn.Identity(), (7, 5, 4, 4), 1),
        (nn.Identity(), (7, 4, 5), 2),
        (nn.Sequential(nn.Conv2d(6, 5, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (7, 6, 4, 4), 1),
    ],
)
def test_units_lie_where_the_layer_before_puts_them(layer, shape, dimension):
    torch.manual_seed(0)
    model, x = nn.Sequential(layer, nn.ReLU()), torch.randn(shape)
    output = model(x)
    result = activity(model.train(), x)["1"]
    assert len(result.fractions) == 5
    assert result.inputs == output.numel() // 5
    if not isinstance(layer, nn.Sequential):  # batch normalisation changes its output from call to call
        np.testing.assert_allclose(result.fractions, fractions(output, dimension), rtol=1e-15)


def test_counts_add_up_over_steps_and_calls():
    model, parts = nn.Sequential(nn.Linear(6, 5), nn.ReLU()), torch.randn(10, 6).split([3, 7])
    result = activity(model, *parts)["1"]
    assert result.inputs == 10
    np.testing.assert_allclose(result.fractions, fractions(model(torch.cat(parts)), 1), rtol=1e-15)


def test_dead_units_are_found():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
    with torch.no_grad():
        model[0].bias[[1, 3, 4]] = -100.0
    emitter = MemoryEmitter()
    monitor = ActivationMonitor(model, emitter=emitter, on_error="raise")
    with monitor.step(3):
        model(torch.randn(300, 6))
    monitor.close()
    assert monitor.unit_activity()["1"].dead.tolist() == [1, 3, 4]
    (finding,) = monitor.findings()
    assert (finding.kind, finding.name, finding.step, finding.value) == ("dead_units", "1", 3, 0.6)
    (alert,) = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert alert.message == "1: 60% of the units are dead, more than 50% at step 3"


def test_units_that_saw_few_inputs_are_not_judged():
    model = nn.ReLU()
    monitor = ActivationMonitor(model, on_error="raise")
    with monitor.step(0):
        model(torch.full((99, 6), -1.0))
    monitor.close()
    assert monitor.unit_activity()["ReLU"].dead_fraction == 1
    assert monitor.findings() == []


@pytest.mark.parametrize(("active", "dead"), [(1, [0]), (2, []), (3, [])])
def test_a_unit_is_dead_below_one_percent(active, dead):
    units = UnitActivity()
    output = torch.zeros(200, 1)
    output[:active] = 1
    units.add("layer", output, None)
    assert units.read()["layer"].dead.tolist() == dead


def test_nan_is_not_active_and_empty_outputs_do_not_count():
    units = UnitActivity()
    units.add("layer", torch.tensor([[float("nan"), 1.0], [2.0, -1.0]]), None)
    units.add("layer", torch.empty(0, 2), None)
    units.add("layer", torch.tensor(1.0), None)
    assert units.read()["layer"].fractions.tolist() == [0.5, 0.5]
    assert units.read()["layer"].inputs == 2


def test_counting_starts_anew_when_the_number_of_units_changes():
    units = UnitActivity()
    units.add("layer", torch.ones(4, 3), None)
    units.add("layer", torch.zeros(2, 5), None)
    assert (units.read()["layer"].inputs, units.read()["layer"].fractions.tolist()) == (2, [0.0] * 5)


def test_old_windows_are_forgotten():
    units = UnitActivity()
    for step in range(3 * WINDOW):
        units.add("layer", torch.full((2, 1), 1.0 if step < WINDOW else 0.0), None)
        units.end_step()
        if step == WINDOW - 1:
            assert units.take_window()["layer"].fractions.tolist() == [1.0]
            assert units.take_window() == {}
    assert units.take_window()["layer"].fractions.tolist() == [0.0]
    assert (units.read()["layer"].inputs, units.read()["layer"].dead.tolist()) == (2 * WINDOW, [0])


def test_inference_mode_and_training_mix():
    model, x = nn.Sequential(nn.Linear(6, 5), nn.ReLU()), torch.randn(4, 6)
    monitor = ActivationMonitor(model, on_error="raise")
    for step, mode in enumerate([torch.inference_mode(True), torch.inference_mode(False)]):
        with mode, monitor.step(step):
            model(x)
    assert monitor.unit_activity()["1"].inputs == 8


def test_layers_that_feed_a_functional_relu_can_be_chosen():
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    x = torch.randn(9, 6)
    result = activity(model, x, modules=[nn.Tanh], unit_activity=["0"])
    assert list(result) == ["0"]
    np.testing.assert_allclose(result["0"].fractions, fractions(model[0](x), 1), rtol=1e-15)
    assert activity(model, x, unit_activity=False) == {}


def test_layers_that_keep_the_shape_have_no_dimension_of_their_own():
    assert unit_dimension(nn.ReLU()) is None
    assert unit_dimension(nn.ConvTranspose2d(1, 1, 1)) == -3
    assert unit_dimension(nn.Embedding(1, 1)) == -1
