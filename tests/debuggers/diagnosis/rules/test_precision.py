"""Gradients that float16 cannot hold."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence

import stepscope
from debuggers.detectors import Finding
from debuggers.diagnosis.facts import Facts, GroupFacts, InvariantFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("size", "dtype", "learnt", "is_one"), [
    (5e-5, "float16", 0.1, True), (7e-5, "float16", 0.1, False), (5e-5, "float32", 0.1, False),
    (5e-5, "float16", 0.5, False),
])  # fmt: skip
def test_gradients_below_the_smallest_normal_number_underflow_where_nothing_is_learnt(size, dtype, learnt, is_one):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), dtype=dtype, std=0.2)
    found = evidence(
        facts=Facts(steps=STEPS, parameters=(weight,)), loss=np.linspace(2.3, 2.3 * (1 - learnt), STEPS),
        tensors={"gradient_rms": {"fc.weight": np.full(STEPS, size)}},
    )  # fmt: skip
    assert ("fp16_underflow" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("eps", "dtype", "is_first"), [
    (1e-8, "float16", True), (1e-4, "float16", False), (1e-8, "float32", False),
])  # fmt: skip
def test_an_epsilon_that_is_zero_in_float16_divides_by_zero(eps, dtype, is_first):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), dtype=dtype, std=0.2)
    groups = (GroupFacts(settings={"lr": 1e-3, "eps": eps}),)
    facts = Facts(steps=STEPS, parameters=(weight,), groups=groups, optimizer="Adam")
    loss = np.where(np.arange(STEPS) < 2, 2.3, np.nan)
    found = Finding(
        kind="non_finite_loss", name="loss", level="error", step=2, last_step=59, steps=58, ongoing=True, value=np.nan,
        threshold=np.inf, evidence="", rule="",
    )  # fmt: skip
    causes = diagnose(evidence(facts=facts, loss=loss, findings=(found,)))
    assert (causes[0].code == "fp16_underflow") == is_first


@pytest.mark.parametrize(("broken", "is_named"), [(3, True), (2, False)])
def test_a_loss_that_is_often_not_finite_counts_though_it_ends(broken, is_named):
    loss = np.where(np.arange(STEPS) < broken, np.nan, np.geomspace(2.3, 0.3, STEPS))
    found = Finding(
        kind="non_finite_loss", name="loss", level="error", step=0, last_step=broken - 1, steps=broken, ongoing=False,
        value=np.nan, threshold=np.inf, evidence="", rule="",
    )  # fmt: skip
    causes = diagnose(evidence(facts=Facts(), loss=loss, findings=(found,), total_norm__gradients=np.full(STEPS, 1.0)))
    assert ("non_finite_forward" in [cause.code for cause in causes]) == is_named


@pytest.mark.parametrize(("scale", "is_one"), [(1024.0, False), (4.0, True), (1.0, True)])
def test_zeros_say_nothing_where_the_scaled_gradients_are_normal_numbers(scale, is_one):
    """As of inputs that are zero: 1e-6 times 1024 is above 6.1e-5, times 4 it is not."""
    facts = Facts(steps=STEPS, mixed_precision="float16")
    found = evidence(
        facts=facts, loss=np.linspace(2.3, 2.0, STEPS), loss_scale=np.full(STEPS, scale),
        tensors={
            "gradient_zeros": {"fc.weight": np.full(STEPS, 0.6)}, "gradient_rms": {"fc.weight": np.full(STEPS, 1e-6)},
        },
    )  # fmt: skip
    assert ("fp16_underflow" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("broken", "first"), [("gradient", "non_finite_backward"), ("loss", "poor_initialization")])
def test_a_gradient_that_breaks_while_the_loss_is_finite_needs_no_large_first_loss(broken, first):
    """Of ten classes a uniform guess has a loss of 2.3, and scaled cosines with a margin may have one of 14."""
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(64, 10), targets_shape=(64,))
    losses = np.where(np.arange(STEPS) < 6, 14.0 - np.arange(STEPS), np.nan)
    found = Finding(
        kind=f"non_finite_{broken}", name="fc.weight" if broken == "gradient" else "loss", level="error",
        step=5 if broken == "gradient" else 6, last_step=59, steps=54, ongoing=True, value=np.nan, threshold=np.inf,
        evidence="", rule="",
    )  # fmt: skip
    made = evidence(
        facts=Facts(steps=STEPS, loss=loss), loss=losses, findings=(found,),
        **{"baseline_loss": np.full(STEPS, 2.3), "targets/classes_so_far": np.full(STEPS, 10.0)},
    )  # fmt: skip
    assert diagnose(made)[0].code == first


@pytest.mark.parametrize(("size", "is_one"), [(1e-6, True), (1e-2, False)])
def test_half_of_the_gradients_that_are_zero_are_lost_where_the_others_are_small(size, is_one):
    """Of two layers, that of the second is still there: 1e-2 is far above what float16 can hold."""
    facts = Facts(steps=STEPS, mixed_precision="float16")
    zeros, sizes = {"0.weight": 1.0, "2.weight": 0.1}, {"0.weight": size / 10, "2.weight": size}
    found = evidence(
        facts=facts, loss=np.linspace(2.3, 1.5, STEPS),
        tensors={
            "gradient_zeros": {name: np.full(STEPS, one) for name, one in zeros.items()},
            "gradient_rms": {name: np.full(STEPS, one) for name, one in sizes.items()},
        },
    )  # fmt: skip
    assert ("fp16_underflow" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("broken", "codes"), [(1, ["non_finite_forward", "non_finite_backward"]),
                                               (0, ["non_finite_backward"])])  # fmt: skip
def test_an_exponential_that_was_infinite_before_a_finite_loss_is_why_gradients_are_not(broken, codes):
    invariant = InvariantFacts(
        name="loss_exponentials_are_finite", checked=1, broken=broken, first_step=0 if broken else None,
        where="exp puts out infinity in (48, 48)" if broken else "",
    )  # fmt: skip
    found = Finding(
        kind="non_finite_gradient", name="fc.weight", level="error", step=0, last_step=59, steps=60, ongoing=True,
        value=np.nan, threshold=np.inf, evidence="", rule="",
    )  # fmt: skip
    facts = Facts(steps=STEPS, invariants=(invariant,))
    causes = diagnose(evidence(facts=facts, loss=[2.3], findings=(found,)))

    assert [cause.code for cause in causes] == codes
    assert not broken or causes[0].evidence == ("exp puts out infinity in (48, 48) at step 0, before the loss",)


def test_an_exponential_may_be_infinite_where_all_else_is_finite():
    invariant = InvariantFacts(name="loss_exponentials_are_finite", checked=9, broken=9, first_step=0, where="exp")
    assert not diagnose(evidence(facts=Facts(steps=STEPS, invariants=(invariant,))))


@pytest.mark.parametrize(("at", "named"), [(0, True), (40, False), (None, False)])
def test_weights_that_hold_nan_before_the_first_pass_are_named(at, named):
    """Of later ones the first NaN is in the loss: weights are looked at in sampled steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for step in range(60):
            if step == at:
                torch.nn.init.constant_(model[2].weight, torch.nan)
            rows = torch.randn(32, 8)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), rows[:, :3].argmax(1)).backward()
            optimizer.step()
    causes = [cause for cause in session.report().causes if cause.code == "non_finite_forward"]
    assert [cause.since_step for cause in causes] == ([] if at is None else [at])
    assert any("2.weight held NaN" in text for cause in causes for text in cause.evidence) == named
    if named:
        assert "2.weight" in causes[0].where
        assert causes[0].advice.startswith("Look at what sets 2.weight")
