"""Clipping that comes too early is said to come too early."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss
from msgspec.structs import replace as with_fields

from debuggers.diagnosis.cause import LIKELY
from debuggers.diagnosis.facts import Facts, GroupFacts, InvariantFacts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.rules.gradient_handling import clipping_ineffective, clipping_too_strong, gradients_not_zeroed


@pytest.mark.parametrize("broken", [0, STEPS])
def test_the_advice_is_to_unscale_where_gradients_were_clipped_with_their_scale(broken):
    place = "clip_grad_norm_ with max_norm=1" if broken else ""
    early = InvariantFacts(name="clipped_after_unscaling", checked=STEPS, broken=broken, first_step=0, where=place)
    found = evidence(
        facts=Facts(steps=STEPS, invariants=(early,)),
        clipped_norm=[0.01] * STEPS, unclipped_norm=[1.0] * STEPS, update_ratio=[1e-5] * STEPS,
    )  # fmt: skip
    cause = clipping_too_strong(found).cause
    assert ("unscale_" in cause.advice, "max_norm=2" in cause.advice) == (bool(broken), not broken)
    assert cause.where == ((place,) if broken else ())


@pytest.mark.parametrize("is_called", [True, False])
def test_gradients_that_are_zeroed_before_the_step_are_neither_clipped_nor_left_over(is_called):
    """As ``zero_grad`` between ``backward`` and ``step`` does; a clipping to a norm of 0 zeroes them, too."""
    clipped = InvariantFacts(name="clipped_after_backward", checked=STEPS if is_called else 0)
    left = InvariantFacts(name="gradients_zeroed", checked=STEPS, broken=STEPS, first_step=1)
    signals = {"clipped_norm": [0.0], "unclipped_norm": [1.0], "update_ratio": [0.0], "total_norm/gradients": [0.0]}
    found = evidence(
        facts=Facts(steps=STEPS, invariants=(clipped, left)), **{name: one * STEPS for name, one in signals.items()}
    )

    assert (clipping_too_strong(found).cause is not None) == is_called
    assert gradients_not_zeroed(found).cause is None


@pytest.mark.parametrize(("broken", "last", "is_one"), [
    (STEPS, 1.9, True), (STEPS // 2, 1.9, False), (STEPS, 0.05, False),
])  # fmt: skip
def test_gradients_that_are_zeroed_before_each_of_several_batches_are_zeroed_at_the_wrong_place(broken, last, is_one):
    unused = InvariantFacts(name="backward_passes_are_used", checked=STEPS, broken=broken, first_step=0)
    found = evidence(
        facts=Facts(steps=STEPS, invariants=(unused,)),
        loss=np.geomspace(2.3, last, STEPS), baseline_loss=np.full(STEPS, 2.3),
    )  # fmt: skip
    cause = gradients_not_zeroed(found).cause
    assert (cause is not None and cause.confidence > LIKELY) == is_one


def test_early_clipping_that_leaves_much_is_no_cause():
    early = InvariantFacts(name="clipped_after_unscaling", checked=STEPS, broken=STEPS, first_step=0)
    found = evidence(
        facts=Facts(steps=STEPS, invariants=(early,)), clipped_norm=[0.5] * STEPS, unclipped_norm=[1.0] * STEPS
    )
    assert clipping_too_strong(found).cause is None


@pytest.mark.parametrize(("usual", "largest", "is_one"), [(1.0, 30.0, True), (1.0, 10.0, False), (0.0, 1e-6, False)])
def test_a_limit_that_is_not_reached_is_named_where_gradients_explode_and_not_where_little_is_learnt(
    usual, largest, is_one
):
    norms = np.where(np.arange(STEPS) == 20, largest, usual)
    found = evidence(facts=Facts(steps=STEPS, clips=True), **{"total_norm/gradients": norms})
    cause = clipping_ineffective(found).cause
    assert (cause.confidence > 0.5) == is_one
    if not is_one:
        assert cause.confidence < 0.25  # it is not even named beside others


@pytest.mark.parametrize(("ratio", "last", "is_one"), [(2e-3, 0.8, False), (9e-4, 0.8, True), (2e-3, 1.0, True)])
def test_a_limit_far_below_the_gradients_is_sound_where_steps_are_of_a_usual_size_and_much_is_learnt(
    ratio, last, is_one
):
    """As in a recurrence whose gradients explode: the limit is what makes its steps usual."""
    found = evidence(
        facts=Facts(steps=STEPS, clips=True), loss=np.where(np.arange(STEPS) < 9, 2.3, last),
        clipped_norm=np.full(STEPS, 0.5), unclipped_norm=np.linspace(90, 150, STEPS),
        update_ratio=np.full(STEPS, ratio),
    )  # fmt: skip
    assert (clipping_too_strong(found).cause.confidence > 0.5) == is_one


@pytest.mark.parametrize(("optimizer", "decay", "is_one"), [
    ("Adam", 1e-4, True), ("Adam", 4e-6, False), ("Adam", 0.5, False),  # that outweighs whole gradients, too
    ("AdamW", 1e-4, False), ("SGD", 1e-4, False),
])  # fmt: skip
def test_decay_behind_the_clipping_outweighs_what_is_left(optimizer, decay, is_one):
    """Adam makes steps of a usual size of the sum of both."""
    groups = (GroupFacts(settings={"weight_decay": decay}),)
    found = evidence(
        facts=Facts(steps=STEPS, clips=True, optimizer=optimizer, groups=groups), weight_norm=np.full(STEPS, 10.0),
        clipped_norm=np.full(STEPS, 1e-4), unclipped_norm=np.linspace(0.9, 1.5, STEPS),
        update_ratio=np.full(STEPS, 2e-3),
    )  # fmt: skip
    said = any("what clipping leaves" in text for text in clipping_too_strong(found).cause.evidence)
    assert said == is_one


@pytest.mark.parametrize(("last", "is_one"), [(0.66, True), (0.5, False)])
def test_clipping_that_leaves_little_is_too_strong_where_nothing_is_learnt_by_steps_of_a_usual_size(last, is_one):
    found = evidence(
        facts=of_loss(kind="bce_with_logits"), loss=np.linspace(0.7, last, STEPS), baseline_loss=np.full(STEPS, 0.69),
        update_ratio=np.full(STEPS, 2e-3), clipped_norm=np.full(STEPS, 0.01),
        **{"total_norm/gradients": np.linspace(0.5, 0.4, STEPS)},
    )  # fmt: skip
    assert (clipping_too_strong(found).confidence > LIKELY) == is_one


@pytest.mark.parametrize(("last", "is_one"), [(1.5, True), (0.3, False)])
def test_passes_that_are_added_up_do_no_harm_where_most_is_learnt(last, is_one):
    """As of two views of the same rows."""
    facts = with_fields(of_loss(), backward_passes=2, optimizer="SGD")
    found = evidence(
        facts=facts, loss=np.geomspace(2.3, last, STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.geomspace(0.06, 0.005, STEPS),
    )  # fmt: skip
    assert ("accumulation_not_averaged" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("clips", "second", "last", "is_one"), [
    (True, 0.9e-4, 1.4, True), (False, 0.9e-4, 1.4, False), (True, 0.3e-4, 1.4, False), (True, 0.9e-4, 0.3, False),
])  # fmt: skip
def test_elements_of_one_magnitude_in_all_weights_are_clipped_by_value(clips, second, last, is_one):
    """What is left of them are their signs, which may be enough."""
    sizes = {"0.weight": np.full(STEPS, 1e-4), "1.weight": np.full(STEPS, second)}
    facts = Facts(steps=STEPS, clips=clips, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    found = evidence(
        facts=facts, loss=np.linspace(2.0, last, STEPS), tensors={"gradient_rms": sizes},
        update_ratio=np.full(STEPS, 2e-3),
    )  # fmt: skip
    assert ("clipping_too_strong" in [cause.code for cause in diagnose(found) if cause.is_likely]) == is_one
