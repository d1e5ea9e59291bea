"""What signals must leave alone: copies, files and compiled code of a model, the random state, and memory."""

import copy
import io

import pytest
import torch
from torch import nn

import stepscope
from debuggers.diagnosis.tensor_log import FIRST_KEPT, MOST_LATER, TensorLog


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def steps(session, model, optimizer, count, called=None):
    for _ in range(count):
        optimizer.zero_grad()
        outputs = (called or model)(torch.randn(4, 8))
        targets = torch.randint(0, 3, (4,))
        loss = nn.functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, targets=targets)
        optimizer.step()


def hooks_in(model):
    return [name for module in model.modules() for name, value in vars(module).items() if "hook" in name and value]


def test_a_watched_model_can_be_copied_and_saved_and_has_no_hook_afterwards():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        steps(session, model, optimizer, 3)
        twin = copy.deepcopy(model)
        torch.save(model, io.BytesIO())
        count = len(session.evidence()["inputs/mean"])
        twin(torch.randn(4, 8))
        steps(session, model, optimizer, 1)
        assert len(session.evidence()["inputs/mean"]) == count + 1
    assert not hooks_in(model) and not optimizer._optimizer_step_post_hooks and not optimizer._optimizer_step_pre_hooks


def test_the_random_state_is_that_of_a_training_without_signals():
    states = []
    for wanted in (True, False):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with stepscope.DebugSession(model, optimizer, config=stepscope.DebugConfig(diagnosis=wanted)) as session:
            steps(session, model, optimizer, 12)
        states.append((torch.get_rng_state(), model.state_dict()))
    assert torch.equal(states[0][0], states[1][0])
    assert all(torch.equal(states[0][1][name], value) for name, value in states[1][1].items())


def test_layers_may_change_and_targets_may_not_fit():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        steps(session, model, optimizer, 2)
        model[3] = nn.Linear(16, 5)
        steps(session, model, optimizer, 2)
        model(torch.randn(4, 8)).sum().backward()
        session.step(targets=torch.zeros(7, 2, 9))
        evidence = session.evidence()
    assert len(evidence.of_tensors("output_std")["3"]) == 5
    assert len(evidence["accuracy"]) == 4


def test_passes_without_gradients_and_of_a_given_up_validation_are_left_out():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        with torch.no_grad():
            model(torch.full((9, 8), 100.0))
        model.eval()
        model(torch.full((9, 8), 100.0))  # with gradients, as a careless validation runs
        model.train()
        steps(session, model, optimizer, 1)
        evidence = session.evidence()
    assert evidence["inputs/batch_size"].values.tolist() == [4]
    assert evidence["inputs/max"].values[0] < 10


@pytest.mark.parametrize("optimizer", [torch.optim.LBFGS])
def test_the_closure_of_an_optimizer_that_runs_the_model_often(optimizer):
    model = nn.Linear(8, 3)
    stepped = optimizer(model.parameters(), max_iter=4)
    inputs, targets = torch.randn(16, 8), torch.randint(0, 3, (16,))

    def closure():
        stepped.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        return loss

    with stepscope.watch(model, stepped) as session:
        for _ in range(3):
            stepped.step(closure)
        evidence = session.evidence()
        assert not session.report().failures
    assert evidence["inputs/batch_size"].steps.tolist() == [0, 1, 2]
    assert len(evidence["update_ratio"]) == 3


def test_the_series_of_tensors_stay_bounded():
    log = TensorLog()
    for step in range(5000):
        log.add(step, "weight_rms", ("a", "b"), [step, 0.0])
    series = log.series()["weight_rms"]["a"]
    assert FIRST_KEPT < len(series) <= FIRST_KEPT + MOST_LATER + 1
    assert series.steps[-1] == series.values[-1] == 4999
