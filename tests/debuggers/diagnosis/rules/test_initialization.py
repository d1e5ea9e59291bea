"""Signs of weights that start wrong, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = np.arange(12)
ZEROS, MOVED = np.zeros(12), np.minimum(STEPS, 1) * 0.1


@pytest.mark.parametrize(
    ("std", "role", "outputs", "is_one"),
    [
        (0.0, "trained", ZEROS, True),
        (0.0, "trained", MOVED, False),
        (0.1, "trained", ZEROS, False),
        (0.0, "frozen", ZEROS, False),
        (0.0, "trained", ZEROS[:9], False),
    ],
)
def test_gains_of_zero_that_nothing_can_move_are_a_wrong_start(std, role, outputs, is_one):
    """The last gains of residual branches start at zero, too, and leave it with the first step."""
    gain = ParameterFacts(name="norm.weight", shape=(8,), std=std, role=role)
    seen = Series(STEPS[: len(outputs)], outputs)
    found = Evidence(
        series={"loss": Series(STEPS, np.full(12, 2.3))},
        tensors={name: {"norm": seen} for name in ("output_std", "output_mean")},
        facts=Facts(steps=12, parameters=(gain,)),
    )
    codes = [cause.code for cause in diagnose(found)]

    assert codes == ["poor_initialization"] * is_one
