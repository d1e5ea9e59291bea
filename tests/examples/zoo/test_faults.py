"""Faults that are planted into sound trainings."""

from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.diagnosis.cause import TITLES
from examples.zoo.cases import cases
from examples.zoo.faults import FAULTS, UnsuitedError, planted
from examples.zoo.run import Task, main, planted_tasks, run_task
from examples.zoo.watching import Silent


def spoilt(name, undo, rate=0.1):
    """A network that a fault is planted into, and its optimizer."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    planted(FAULTS[name], lambda model, optimizer: Silent(), undo)(model, optimizer)
    return model, optimizer


@pytest.mark.parametrize("name", FAULTS)
def test_each_has_codes_of_the_vocabulary_and_leaves_torch_as_it_was(name):
    before = [torch.Tensor.backward, *(getattr(functional, loss) for loss in dir(functional) if "loss" in loss)]
    with ExitStack() as undo:
        model, optimizer = spoilt(name, undo)
        for _ in range(12):
            optimizer.zero_grad()
            functional.cross_entropy(model(torch.randn(6, 3)), torch.tensor([0, 1] * 3)).backward()
            optimizer.step()
    assert set(FAULTS[name].codes) <= TITLES.keys()
    assert [torch.Tensor.backward, *(getattr(functional, loss) for loss in dir(functional) if "loss" in loss)] == before


def test_rates_of_a_schedule_are_left_to_it():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with ExitStack() as undo, pytest.raises(UnsuitedError):
        FAULTS["rate_times_1000"].plant(model, optimizer, undo)


def test_what_a_loss_gets_is_changed_where_it_trains_alone():
    outputs, targets = torch.tensor([[4.0, -4.0]], requires_grad=True), torch.tensor([1])
    with ExitStack() as undo:
        spoilt("targets_of_one_class", undo)
        assert functional.cross_entropy(outputs, targets) < 0.1
        with torch.no_grad():
            assert functional.cross_entropy(outputs, targets) > 7
    assert functional.cross_entropy(outputs, targets) > 7


def test_one_value_is_missing_in_the_tenth_call_that_trains():
    with ExitStack() as undo:
        model, _ = spoilt("a_missing_value", undo)
        with torch.no_grad():
            model(torch.ones(2, 3))
        finite = [bool(model(torch.ones(2, 3)).isfinite().all()) for _ in range(12)]
    assert finite == [True] * 9 + [False, True, True]


def test_a_spoilt_training_has_the_code_of_its_fault():
    (case,) = [case for case in cases("tuned") if case.name == "healthy/linear_regression"]

    (task,) = planted_tasks([case], ["step_left_out"], seeds=1)
    outcome = run_task(task)

    assert (outcome.case, outcome.family) == ("healthy/linear_regression + step_left_out", "step_left_out")
    assert (outcome.label, outcome.causes[0][0]) == ("no_update", "no_update")
    assert outcome.quality < case.margin


@pytest.mark.parametrize("fault", ["always_evaluates", "weights_equal"], ids=["unsuited", "harmless"])
def test_a_training_that_a_fault_does_not_harm_does_not_count(fault):
    assert run_task(Task("healthy/linear_regression", "tuned", "healthy", "unchanged", 0, fault=fault)) is None


def test_a_loop_that_tells_what_it_knows_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--fault", "all", "--mode", "told"])
    assert "not into those of --mode told" in capsys.readouterr().err
