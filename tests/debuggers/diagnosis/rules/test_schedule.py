"""When a training ended, beside the signs that the tests of all rules have."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("rows", "is_one"), [(320, True), (319, False)])
def test_a_training_that_went_through_its_rows_for_long_was_not_broken_off_at_its_beginning(rows, is_one):
    """60 steps of 32 rows are 6 epochs of 320; the loss falls faster and faster."""
    found = evidence(
        facts=of_loss(), loss=2.3 - np.linspace(0, 1, STEPS) ** 3, update_ratio=np.full(STEPS, 0.003),
        **{"inputs/repeated_rows": np.full(STEPS, 1.0), "inputs/rows_so_far": np.full(STEPS, rows),
           "inputs/batch_size": np.full(STEPS, 32)},
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("noise", "is_one"), [(0.2, True), (0.9, False)])
def test_a_loss_that_falls_by_no_more_than_its_batches_differ_says_nothing_of_the_end(noise, is_one):
    swings = noise * np.where(np.arange(STEPS) % 2, 0.5, -0.5)
    found = evidence(
        facts=of_loss(kind=""), loss=np.linspace(4.7, 4.0, STEPS) + swings, update_ratio=np.full(STEPS, 0.003),
        **{"validation/loss": np.linspace(4.7, 4.0, STEPS)},
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


def test_a_rate_that_falls_to_a_tenth_but_for_rounding_stops_no_rule(caplog):
    """0.2 / 10 is less than 0.1 * 0.2."""
    rate = np.where(np.arange(STEPS) < 3, 0.2, 0.02)
    diagnose(evidence(facts=of_loss(), loss=np.full(STEPS, 2.3), learning_rate=rate))
    assert not caplog.records
