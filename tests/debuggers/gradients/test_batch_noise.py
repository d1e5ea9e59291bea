"""A batch of fewer rows than usual has noisier gradients, by the root of the ratio."""

import pytest
import torch
from torch import nn

import stepscope
from debuggers.gradients.batch_noise import BatchNoise


def test_a_smaller_batch_has_the_root_of_the_ratio():
    noise = BatchNoise()
    for step, rows in enumerate([64, 64, 64, 1, 64, 16, 128, 0]):
        noise.note(step, rows)

    assert [noise.factor(step) for step in range(9)] == [1, 1, 1, 8, 1, 2, 1, 1, 1]


def test_a_size_that_stays_is_the_usual_one():
    noise = BatchNoise()
    for step, rows in enumerate([64, 64, 16, 16, 16, 4]):
        noise.note(step, rows)

    assert [noise.factor(step) for step in range(6)] == [1, 1, 2, 1, 1, 2]


def _verdict(rows: int, factor: float) -> list[str]:
    """Trains with batches of 64, of which one has some rows and a loss that is a multiple of the others'."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    session = stepscope.watch(model, optimizer)
    for step in range(30):
        count = rows if step == 25 else 64
        loss = (factor if step == 25 else 1.0) * (model(torch.ones(count, 4)) - 5.0).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    session.close()
    return [finding.kind for finding in session.report().findings if finding.is_problem]


@pytest.mark.parametrize(("rows", "factor", "found"), [(1, 30.0, False), (64, 30.0, True), (1, 300.0, True)])
def test_a_left_over_row_may_have_a_large_gradient(rows, factor, found):
    assert ("exploding_gradient" in _verdict(rows, factor)) is found
