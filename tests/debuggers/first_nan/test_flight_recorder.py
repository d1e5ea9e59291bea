"""The flight recorder keeps a few numbers of each leaf module in the last steps, and knows who was first not finite."""

import math

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_parts import Applies

from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.flight_recorder import STATISTICS, NonFiniteWatch


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Identity()), nn.Linear(4, 2))


def measured(values):
    values = values.detach().double()
    return {
        "mean": values.mean().item(),
        "std": values.std().item(),
        "minimum": values.min().item(),
        "maximum": values.max().item(),
    }


@pytest.mark.parametrize("shape", [(5, 3), (9000, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_statistics_are_those_of_the_output(shape, dtype):
    model = nn.Sequential(nn.Linear(3, 4).to(dtype))
    with NonFiniteWatch(model) as watch:
        outputs = model(torch.randn(shape, dtype=dtype))
        (entry,) = watch.history("0")

    assert {name: entry[name] for name in STATISTICS} == pytest.approx(measured(outputs), rel=1e-4, abs=1e-5)


def test_as_many_steps_are_kept_as_asked():
    model = network()
    with NonFiniteWatch(model, history=3) as watch:
        for number in range(10, 16):
            model(torch.randn(5, 3))
            watch.end_step(number)
        model(torch.randn(5, 3))

    assert [entry["step"] for entry in watch.history("1.0")] == [13, 14, 15, 16]
    assert watch.names == ("0", "1.0", "1.1", "2")


def test_each_call_in_a_step_is_an_entry():
    model = nn.Linear(3, 3)
    with NonFiniteWatch(model) as watch:
        model(model(torch.ones(1, 3)))

    assert [(entry["step"], entry["call"]) for entry in watch.history("Linear")] == [(0, 1), (0, 2)]


def test_the_first_module_in_order_of_calls_is_named():
    model = nn.Sequential(
        nn.Linear(3, 4), nn.Sequential(Applies(lambda values: values / 0 - values / 0), nn.Identity()), nn.Linear(4, 2)
    )
    with NonFiniteWatch(model) as watch:
        model(torch.ones(2, 3))
        assert watch.first_non_finite() == "1.0"
        watch.end_step(0)
        assert watch.first_non_finite() is None
    assert math.isnan(watch.history("1.0")[0]["mean"])


def test_finite_outputs_name_nothing():
    model = network()
    with NonFiniteWatch(model) as watch:
        model(torch.full((2, 3), 1e18))
        assert watch.first_non_finite() is None


def test_only_passes_with_gradients_count_and_checkpoints_once():
    model = network()
    with NonFiniteWatch(model) as watch:
        with torch.no_grad():
            model(torch.ones(2, 3))
        checkpoint(model, torch.ones(2, 3, requires_grad=True), use_reentrant=True).sum().backward()
        checkpoint(model, torch.ones(2, 3, requires_grad=True), use_reentrant=False).sum().backward()

    # A re-entrant checkpoint's forward pass runs without gradients.
    assert len(watch.history("0")) == 1


def test_integers_empty_outputs_and_tuples_do_no_harm():
    model = nn.Sequential(nn.Identity(), nn.LSTM(3, 2))
    with NonFiniteWatch(model) as watch:
        model[0](torch.ones(3, dtype=torch.int64))
        model[0](torch.ones(0, 3))
        model(torch.ones(4, 3))

    assert [len(watch.history(name)) for name in ("0", "1")] == [1, 1]


def test_an_output_that_cannot_be_measured_is_counted_and_logged_once(caplog):
    class Sealed(dict):
        def values(self):
            raise TypeError("the values of this are sealed")

    model = nn.ModuleList([nn.Linear(3, 3), Applies(lambda values: Sealed(out=values))])
    with NonFiniteWatch(model) as watch:
        for _ in range(3):
            model[1](model[0](torch.ones(2, 3)))

    assert watch.failures == {("measuring the output of 1", "TypeError"): 3}
    assert len(watch.history("0")) == 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_closing_leaves_no_hook():
    model = network()
    NonFiniteWatch(model).close()
    assert not hook_count(model)


def test_what_was_compiled_is_left_out():
    model = nn.Sequential(nn.Linear(3, 3), torch.compile(network(), backend="eager"))
    with NonFiniteWatch(model) as watch:
        assert "0" in watch.names
        assert watch.left_out


def test_a_history_of_no_steps_is_refused():
    with pytest.raises(DebuggerConfigError, match="history is 0; expected an integer of at least 1"):
        NonFiniteWatch(network(), history=0)
