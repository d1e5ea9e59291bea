"""Modes that are kept on purpose."""

import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.facts import Facts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("std", "steps", "is_one"), [(0.2, STEPS, False), (0.2, STEPS - 1, True), (0.0, STEPS, True)])
def test_batch_norms_that_were_trained_before_may_keep_their_statistics_from_the_first_step_on(std, steps, is_one):
    weight = ParameterFacts(name="body.norm.weight", shape=(8,), mean=1.0, std=std)
    layers = (LayerFacts(name="body.norm", kind="BatchNorm2d", value=0.1),)
    facts = Facts(steps=STEPS, eval_steps=steps, parameters=(weight,), layers=layers)

    assert [cause.code for cause in diagnose(evidence(facts=facts))] == ["wrong_mode"] * is_one
