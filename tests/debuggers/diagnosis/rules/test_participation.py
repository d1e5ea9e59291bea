"""Signs of parameters that take no part, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, InvariantFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 60


@pytest.mark.parametrize(("broken", "is_one"), [(8, True), (4, False)])
def test_weights_that_the_model_does_not_know_are_in_no_optimizer(broken, is_one):
    invariant = InvariantFacts(name="weights_are_registered", checked=9, broken=broken, first_step=1, where="(6, 64)")
    causes = diagnose(Evidence(facts=Facts(steps=STEPS, invariants=(invariant,))))

    assert [cause.code for cause in causes] == ["parameters_not_in_optimizer"] * is_one
    if is_one:
        assert "(6, 64)" in causes[0].evidence[0]
        assert "ModuleList" in causes[0].advice


def test_steps_that_change_nothing_do_not_follow_from_large_inputs():
    values = {"update_ratio": 0.0, "total_norm/gradients": 1.0, "inputs/mean": 0.0, "inputs/std": 100.0, "loss": 2.3}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, value)) for name, value in values.items()}

    assert diagnose(Evidence(series=series, facts=Facts(steps=STEPS)))[0].code == "no_update"
