"""Signs of gradients, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose

BLOWN_UP = np.where(np.arange(STEPS) < 2, np.geomspace(150, 1e40, STEPS), np.nan)


@pytest.mark.parametrize(("kind", "norm", "is_one"), [
    ("cross_entropy", 2e3, True), ("cross_entropy", 5e2, False), ("mse", 2e3, False), ("mse", 2e4, True),
])  # fmt: skip
def test_gradients_that_explode_before_any_update_follow_from_no_learning_rate(kind, norm, is_one):
    """Those of squared errors grow with the root of the loss, which is 12 here."""
    found = evidence(
        facts=Facts(steps=STEPS, loss=LossFacts(kind=kind, reduction="mean")), loss=BLOWN_UP,
        **{"total_norm/gradients": np.where(np.arange(STEPS) < 2, norm, np.nan), "update_ratio": np.full(STEPS, 0.4)},
    )  # fmt: skip
    codes = [cause.code for cause in diagnose(found)]

    assert (codes[0] == "exploding_gradients") == is_one
    assert "learning_rate_too_high" in codes
