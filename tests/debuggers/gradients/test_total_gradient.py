"""The total of every step is judged once, from a probe or a measurement, and emitted once."""

import math
import weakref

import pytest
import torch
from tracker_adapters.testing import MemoryEmitter

from debuggers.gradients.debugger import GradientDebugger
from debuggers.gradients.parameters import Parameters
from debuggers.gradients.total_gradient import TotalGradient
from debuggers.measurement.arrival_queue import ArrivalQueue

SERIES = "total_norm/gradients"


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def fill(model, value):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, value)


def run(values, *, measured=()):
    """Takes steps with gradients of one value each, and measures those given and those that a probe asks for."""
    model, emitter = network(), MemoryEmitter()
    debugger = GradientDebugger(model, emitter=emitter, on_error="raise")
    asked = []
    for step, value in enumerate(values):
        fill(model, value)
        if step in measured:
            debugger.step(step)
            continue
        probe = debugger.probe(step)
        if probe.asks_for_more:
            asked.append(step)
            debugger.step(step)
        else:
            debugger.leave_out()
    return debugger, emitter, asked


def alerts(emitter):
    return [(item.name, item.step, item.message) for item in emitter.artifacts if item.kind == "alert"]


def totals(emitter):
    return {item.step: item.value for item in emitter.artifacts if item.name == SERIES}


def test_every_step_has_one_total_measured_or_not():
    _, emitter, asked = run([1.0] * 6, measured=(0, 3))

    size = math.sqrt(58)
    assert [item.step for item in emitter.artifacts if item.name == SERIES] == list(range(6))
    assert list(totals(emitter).values()) == pytest.approx([size] * 6)
    assert asked == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_step_that_is_not_finite_is_measured_and_its_parameters_are_named(bad):
    debugger, emitter, asked = run([1.0, 1.0, bad, 1.0])

    assert asked == [2]
    ((name, step, message),) = alerts(emitter)
    assert (name, step) == ("non_finite_gradient", 2)
    assert "0.weight" in message
    assert {finding.name for finding in debugger.analyze_gradient_flow().findings} == {
        "0.weight", "0.bias", "2.weight", "2.bias",
    }  # fmt: skip


def test_only_the_beginning_of_a_fault_asks_for_a_measurement():
    _, emitter, asked = run([1.0] * 3 + [math.nan] * 50)

    assert asked == [3]
    assert len(alerts(emitter)) == 1
    assert math.isnan(totals(emitter)[52])


def test_a_total_that_explodes_in_the_third_step_is_reported():
    _, emitter, asked = run([0.5, 4.0, 4e3, 1e5])

    assert asked == [2]
    ((name, step, message),) = alerts(emitter)
    assert (name, step) == ("exploding_gradient", 2)
    assert message.startswith("all gradients: norm 3.05e+04 is above 190")


@pytest.mark.parametrize("values", [[1e-9, 1e-3, 1.0], [1e4, 1e5, 1e4], [0.0, 1.0, 1.0]])
def test_first_norms_that_differ_much_are_no_explosion(values):
    assert alerts(run(values)[1]) == []


def test_a_spike_between_measured_steps_is_reported():
    debugger, emitter, _ = run([1.0] * 40 + [1e3] + [1.0] * 5, measured=range(0, 46, 10))

    assert alerts(emitter)[0][:2] == ("exploding_gradient", 40)
    assert [finding.step for finding in debugger.analyze_gradient_flow().findings] == [40]


def test_what_a_probe_and_a_measurement_both_see_is_one_finding():
    debugger, emitter, _ = run([1.0] * 40 + [1e7], measured=range(40))

    ((name, step, message),) = alerts(emitter)
    assert (name, step) == ("exploding_gradient", 40)
    assert "0.weight" in message
    assert "all gradients" not in {finding.name for finding in debugger.analyze_gradient_flow().findings}


def test_gradients_that_all_turn_to_zero_are_reported_whatever_is_measured():
    debugger, emitter, asked = run([1.0] * 150 + [0.0] * 110, measured=range(0, 250, 50))

    assert asked == [252]
    ((name, step, message),) = alerts(emitter)
    assert (name, step) == ("zero_gradient", 252)
    assert message.startswith("all gradients: the gradient is zero everywhere")
    (found,) = debugger.analyze_gradient_flow().findings
    assert (found.kind, found.name, found.step, found.ongoing) == ("zero_gradient", "all gradients", 250, True)


@pytest.mark.parametrize(
    "values", [[1.0] * 10 + [0.0] * 10, ([1.0] * 5 + [0.0] * 5) * 30, [0.0] * 300, [0.0] * 9 + [1.0]]
)
def test_zeros_in_turn_or_from_the_start_are_no_fault_of_the_total(values):
    assert alerts(run(values)[1]) == []


def test_without_gradients_there_is_nothing_to_probe():
    debugger = GradientDebugger(network(), on_error="raise")
    assert debugger.probe(0) is None
    debugger.leave_out()


def test_a_probe_that_waits_for_a_device_keeps_no_gradient_alive():
    class Late:
        def ready(self):
            return False

    model, arrivals, emitter = network(), ArrivalQueue(), MemoryEmitter()
    total = TotalGradient(emitter, arrivals, lambda begun: None)
    arrivals.push(Late(), lambda: None)  # as long as it is on its way, what comes after it waits
    fill(model, 1.0)
    total.probe(0, Parameters(model).gradients(), None, expected_overflow=False)
    gradient = weakref.ref(model[0].weight.grad)
    total.leave_out()
    model.zero_grad()

    assert gradient() is None
    arrivals.drain()
    assert totals(emitter) == {0: pytest.approx(math.sqrt(58))}


def test_a_probe_of_another_step_is_not_measured_in_the_place_of_this_one():
    model = network()
    debugger = GradientDebugger(model, on_error="raise")
    fill(model, 1.0)
    debugger.probe(0)
    fill(model, 2.0)
    table = debugger.step(1)

    assert table.largest_magnitude.tolist() == [2.0] * 4
    assert debugger.probed_steps == 2
