"""First losses that are far above that of a guess, and tables that make the scores, too."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.facts import Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose

GUESS = float(np.log(40))


def made(times, *, reduction="mean", last=0.1, nodes=("AddmmBackward0",), parameters=(), layers=()):
    loss = LossFacts(
        kind="cross_entropy", reduction=reduction, outputs_shape=(32, 40),
        nodes=("NllLossBackward0", "LogSoftmaxBackward0", *nodes),
    )  # fmt: skip
    facts = Facts(steps=STEPS, loss=loss, parameters=parameters, layers=layers)
    losses = np.r_[np.full(3, times * GUESS), np.geomspace(times, last, STEPS - 3) * GUESS]
    found = evidence(facts=facts, loss=losses, baseline_loss=np.full(STEPS, GUESS), update_ratio=np.full(STEPS, 3e-3))
    return "poor_initialization" in [cause.code for cause in diagnose(found)]


@pytest.mark.parametrize(
    ("times", "reduction", "is_one"), [(21.0, "mean", True), (19.0, "mean", False), (21.0, "sum", False)]
)
def test_a_first_loss_of_twenty_guesses_is_the_weights_however_far_it_falls(times, reduction, is_one):
    """What is learnt from there is learnt with weights that are as large as they were; a sum is large by itself."""
    assert made(times, reduction=reduction) is is_one


@pytest.mark.parametrize(("times", "node", "std", "has_head", "is_one"), [
    (5.0, "MmBackward0", 1.0, False, True), (3.9, "MmBackward0", 1.0, False, False),
    (5.0, "AddmmBackward0", 1.0, False, False), (5.0, "MmBackward0", 0.5, False, False),
    (5.0, "MmBackward0", 1.0, True, False),
])  # fmt: skip
def test_a_table_of_deviation_one_that_makes_the_scores_makes_them_large(times, node, std, has_head, is_one):
    """Of 64 columns, 0.5 is a gain of 4; a head of its own has the scores' columns, too."""
    parameters = (ParameterFacts(name="letters.weight", shape=(40, 64), std=std),)
    if has_head:
        parameters += (ParameterFacts(name="head", shape=(64, 40), std=0.1),)
    layers = (LayerFacts(name="letters", kind="Embedding"),)
    assert made(times, nodes=(node,), parameters=parameters, layers=layers) is is_one
