"""A loop may call its model for single rows between its steps: its batches are what it learns from."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.signals.single_rows import follows_single_row


@pytest.mark.parametrize(
    ("first", "later", "is_batch"),
    [
        ((8,), (32, 8), True),
        ((1, 8), (32, 8), True),
        ((), (32,), True),  # a number of a state
        ((8,), (1, 8), False),
        ((2, 8), (32, 8), False),  # several environments are a batch
        ((8,), (32, 9), False),
        ((32, 8), (32, 8), False),
        (None, (32, 8), False),
        ((8,), (), False),
    ],
)
def test_a_batch_has_several_rows_of_the_one_before(first, later, is_batch):
    assert follows_single_row(first, later) == is_batch


@pytest.mark.parametrize("single", [lambda row: row, lambda row: row[None]])
def test_the_batch_of_a_step_is_that_which_is_learnt_from_and_not_the_row_that_was_acted_on(single):
    """States are one-hot: seven of eight numbers of one are equal, and no more than four of 32 batch rows are."""
    torch.manual_seed(0)
    states, choices = torch.eye(8).repeat(4, 1), torch.arange(32) % 2
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for step in range(12):
            model(single(states[step])).argmax()
            rows = torch.randperm(32)
            loss = functional.cross_entropy(model(states[rows]), choices[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            session.step()
    evidence = session.evidence()

    assert evidence.facts.inputs.shape == (32, 8)
    assert evidence.facts.outputs.shape == (32, 2)
    assert set(evidence["inputs/batch_size"].values) == {32}
    assert evidence["inputs/top_row_share"].values.max() == 4 / 32
    assert evidence["outputs/batch_std"].values.min() > 0
