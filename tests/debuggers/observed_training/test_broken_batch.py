"""NaN in data that arrive at a step that is not sampled."""

import pytest
import torch
from torch import nn

import stepscope
from debuggers.observed_training.broken_batch import BrokenBatch

BROKEN = 17  # steps 11 and 22 are sampled


def held(rows):
    return lambda step: rows[step]


def made_for_the_call(rows):
    return lambda step: rows[step] * 1


@pytest.mark.parametrize("given", [held, made_for_the_call])
def test_the_cause_of_a_later_nan_is_found_in_the_batch_that_brought_it(given):
    torch.manual_seed(0)
    rows, targets = torch.randn(30, 8, 4), torch.randint(3, (30, 8))
    rows[BROKEN, 2, 1] = torch.nan
    batch, model = given(rows), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with stepscope.watch(model, optimizer) as session:
        for step in range(30):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch(step)), targets[step]).backward()
            optimizer.step()

    (cause,) = [one for one in session.report().causes if one.is_likely]
    assert (cause.code, cause.since_step) == ("non_finite_inputs", BROKEN)


def test_finite_inputs_of_a_broken_loss_are_counted_as_such():
    batch = BrokenBatch()
    batch.look(torch.ones(3))
    batch.look(torch.tensor([torch.nan]))  # of the first one only
    assert (batch.take(), batch.take()) == (0, None)


@pytest.mark.parametrize("inputs", [None, torch.eye(2).to_sparse(), torch.ones(2, device="meta")])
def test_inputs_that_are_gone_or_hold_no_dense_numbers_are_not_counted(inputs):
    batch = BrokenBatch()
    batch.look(inputs)
    assert batch.take() is None


@pytest.mark.parametrize("step", [0, 10, 11, BROKEN])
def test_complex_inputs_are_looked_at(step):
    """Also at sampled steps, where statistics count what is broken in real ones."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3, dtype=torch.complex64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for number in range(30):
            inputs = torch.randn(8, 4, dtype=torch.complex64)
            if number == step:
                inputs[2, 1] = complex(0.0, torch.nan)
            optimizer.zero_grad()
            model(inputs.conj()).abs().square().mean().backward()
            optimizer.step()

    cause = session.report().causes[0]
    assert (cause.code, cause.since_step) == ("non_finite_inputs", step)


def test_the_batch_of_a_steps_second_call_is_looked_at_where_steps_are_sampled():
    """Micro-batches, of which statistics describe the first."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for number in range(12):
            optimizer.zero_grad()
            for part in range(2):
                inputs, targets = torch.randn(8, 4), torch.randint(0, 3, (8,))
                if (number, part) == (5, 1):
                    inputs[2, 1] = torch.nan
                (nn.functional.cross_entropy(model(inputs), targets) / 2).backward()
            optimizer.step()

    cause = session.report().causes[0]
    assert (cause.code, cause.since_step) == ("non_finite_inputs", 5)


def test_a_batch_that_ends_the_training_is_looked_at():
    """A distribution refuses parameters that are NaN, so that no loss ever shows them."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = stepscope.watch(model, optimizer)
    with pytest.raises(ValueError, match="Normal"):
        for number in range(9):
            inputs = torch.randn(8, 4)
            if number == 7:
                inputs[2, 1] = torch.nan
            optimizer.zero_grad()
            (
                -torch.distributions.Normal(model(inputs), 1.0, validate_args=True).log_prob(inputs[:, :1])
            ).mean().backward()
            optimizer.step()
    session.close()

    cause = session.report().causes[0]
    assert (cause.code, cause.since_step, cause.against) == ("non_finite_inputs", 7, ())


def test_the_batch_of_a_closures_later_call_is_looked_at():
    """Within the optimizer's step, after the session has seen it begin."""
    torch.manual_seed(0)
    model, targets, calls = nn.Linear(4, 3), torch.randint(0, 3, (8,)), iter(range(100))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(12):
            inputs = torch.randn(8, 4)

            def closure(inputs=inputs):
                optimizer.zero_grad()
                given = inputs.clone()
                if next(calls) == 9:
                    given[2, 1] = torch.nan
                loss = nn.functional.cross_entropy(model(given), targets)
                loss.backward()
                return loss

            optimizer.step(closure)

    assert session.report().causes[0].code == "non_finite_inputs"
