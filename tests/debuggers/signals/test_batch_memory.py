"""The loss of the best constant output, against a search over all constants."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from debuggers.signals.batch_memory import BatchMemory
from debuggers.signals.batch_statistics import target_statistics

LOSSES = {
    ("mse", 1.0): functional.mse_loss,
    ("l1", 1.0): functional.l1_loss,
    ("smooth_l1", 1.0): functional.smooth_l1_loss,
    ("smooth_l1", 0.25): partial(functional.smooth_l1_loss, beta=0.25),
    ("smooth_l1", 0.0): partial(functional.smooth_l1_loss, beta=0.0),
    ("huber", 1.0): functional.huber_loss,
    ("huber", 3.0): partial(functional.huber_loss, delta=3.0),
}


def baseline(batches, kind, limit=1.0):
    memory = BatchMemory()
    for batch in batches:
        _, columns = target_statistics(batch, len(batch), None)
        memory.keep(columns.values.numpy())
        memory.targets(columns.rows.numpy(), columns.sums.numpy(), columns.counts.numpy())
    return memory.baseline(kind, limit)


@pytest.mark.parametrize(("kind", "limit"), LOSSES)
def test_the_loss_of_the_best_constant_is_known(kind, limit):
    torch.manual_seed(0)
    targets = 3 * torch.distributions.Gamma(2.0, 1.0).sample((20, 32, 1)) + 5
    values = targets.flatten()
    least = min(float(LOSSES[kind, limit](torch.full_like(values, one), values)) for one in np.linspace(5, 20, 400))

    assert baseline(targets, kind, limit) == pytest.approx(least, rel=0.01)


def test_columns_have_constants_of_their_own():
    targets = torch.tensor([[0.0, 100.0], [2.0, 104.0]])
    assert baseline([targets], "l1") == pytest.approx((1 + 2) / 2)


@pytest.mark.parametrize(("levels", "least"), [((0.5,), (1 / 2 + 1) / 2), ((0.5, 0.25), (1 / 2 + 3 / 4) / 2)])
def test_columns_have_quantiles_of_their_own(levels, least):
    """Of 100 and 104 the lower quartile is 101: errors of -1 and 3 count 3/4 and 1/4, 3/4 on average."""
    targets = torch.tensor([[0.0, 100.0], [2.0, 104.0]])
    assert baseline([targets], "quantile", levels) == pytest.approx(least)


def test_quantiles_of_other_columns_have_no_baseline():
    assert np.isnan(baseline([torch.tensor([[0.0, 100.0], [2.0, 104.0]])], "quantile", (0.1, 0.5, 0.9)))


def test_rows_are_remembered_each_once():
    random = np.random.default_rng(0)
    memory, known = BatchMemory(), np.zeros(0)
    assert not memory.were_trained_on(np.array([1.0, 2.0]))
    for _ in range(50):
        numbers = random.integers(0, 5000, 60).astype(np.float64)
        share = float(np.isin(numbers, known).mean())
        known = np.union1d(known, numbers)
        assert memory.rows(numbers) == (len(known), share)
    assert memory.were_trained_on(known[::7])
    assert not memory.were_trained_on(known[::7] + 10_000)
