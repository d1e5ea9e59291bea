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
