"""How many rows there are, and how often each has come, from batches that were drawn of a known number."""

import numpy as np
import pytest

from debuggers.diagnosis.derived.visits import visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts
from debuggers.diagnosis.series import Series
from debuggers.signals.batch_memory import BatchMemory


def drawn(batches):
    """The signals of batches of row numbers, as a session has them."""
    memory, steps = BatchMemory(), np.arange(len(batches))
    known, again = zip(*(memory.rows(np.array(rows, np.float64)) for rows in batches), strict=True)
    series = {"inputs/rows_so_far": known, "inputs/repeated_rows": again}
    series["inputs/batch_size"] = [len(rows) for rows in batches]
    found = {name: Series(steps, np.array(values, np.float64)) for name, values in series.items()}
    return Evidence(series=found, facts=Facts(steps=20 * len(batches)))


@pytest.mark.parametrize("rows", [24, 100, 1000])
def test_rows_are_counted_by_those_that_come_again(rows):
    generator = np.random.default_rng(0)
    at_random = visits(drawn([generator.integers(0, rows, 32) for _ in range(20)]))
    assert at_random.rows == pytest.approx(rows, rel=0.25)
    assert at_random.each == pytest.approx(400 * 32 / rows, rel=0.25)


def test_rows_that_come_in_epochs_are_counted():
    generator = np.random.default_rng(0)
    epochs = [rows for _ in range(6) for rows in np.split(generator.permutation(96), 4)]
    assert visits(drawn(epochs)).rows == pytest.approx(96, rel=0.01)


def test_rows_that_never_come_again_say_nothing():
    assert visits(drawn(list(np.arange(640).reshape(20, 32)))) is None


def test_batches_that_are_sampled_an_epoch_apart_are_not_all_there_are():
    """An epoch of 40 batches that is not shuffled, of which every tenth is looked at, shows four of them."""
    epoch = np.arange(40 * 32).reshape(40, 32)
    found = drawn([epoch[step % 40] for step in range(0, 200, 10)])
    series = {name: Series(10 * one.steps, one.values) for name, one in found.series.items()}
    assert visits(Evidence(series=series, facts=Facts(steps=200))).rows == pytest.approx(30 * 32)
