"""Steps that change nearly nothing, since the weights' dtype rounds it away."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.facts import Facts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("dtype", "part"), [("bfloat16", "512"), ("float16", "4096")])
@pytest.mark.parametrize(("rounded", "learnt", "is_one"), [(0.95, 0.02, True), (0.85, 0.02, False), (0.95, 0.5, False)])
def test_steps_that_are_rounded_away_change_nothing_where_little_is_learnt(dtype, part, rounded, learnt, is_one):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), dtype=dtype, std=0.2)
    series = {"loss": np.linspace(2.3, 2.3 * (1 - learnt), STEPS), "rounded_away": np.full(STEPS, rounded)}
    causes = diagnose(evidence(facts=Facts(steps=STEPS, parameters=(weight,)), **series))

    found = [cause for cause in causes if cause.code == "no_update"]
    assert len(found) == is_one
    if is_one:
        assert f"95% of the weights in {dtype}" in found[0].evidence[0]
        assert part in found[0].evidence[0]
        assert "float32 weights" in found[0].advice
