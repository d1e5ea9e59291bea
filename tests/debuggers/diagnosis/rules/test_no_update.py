"""Steps that change nearly nothing, and gradients that are gone when the step is told."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.facts import Facts, LossFacts, ParameterFacts
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


@pytest.mark.parametrize(("falls_to", "is_one"), [(0.4, False), (2.2, True)])
def test_gradients_that_are_gone_at_a_step_have_done_their_work_where_the_loss_falls(falls_to, is_one):
    """As in a loop without an optimizer, which changes weights and zeroes gradients before it calls the session."""
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), std=0.2, role="without_gradient")
    facts = Facts(steps=STEPS, parameters=(weight,), loss=LossFacts(kind="cross_entropy", reduction="mean"))
    causes = diagnose(evidence(facts=facts, loss=np.linspace(2.3, falls_to, STEPS)))

    assert ("no_update" in [cause.code for cause in causes]) is is_one
