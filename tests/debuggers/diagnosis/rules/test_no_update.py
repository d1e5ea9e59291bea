"""Steps that change nearly nothing, and gradients that are gone when the step is told."""

import copy

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence

import stepscope
from debuggers.diagnosis.facts import Facts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.rules.no_update import no_update
from debuggers.diagnosis.series import Series


@pytest.mark.parametrize(("dtype", "part"), [("bfloat16", "512"), ("float16", "4096")])
@pytest.mark.parametrize(
    ("rounded", "learnt", "is_one"),
    [(0.95, 0.02, True), (0.76, 0.02, True), (0.74, 0.02, False), (0.95, 0.55, True), (0.95, 0.75, False)],
)
def test_steps_that_are_rounded_away_change_too_little_where_not_much_is_learnt(dtype, part, rounded, learnt, is_one):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), dtype=dtype, std=0.2)
    series = {"loss": np.linspace(2.3, 2.3 * (1 - learnt), STEPS), "rounded_away": np.full(STEPS, rounded)}
    causes = diagnose(evidence(facts=Facts(steps=STEPS, parameters=(weight,)), **series))

    found = [cause for cause in causes if cause.code == "no_update"]
    assert len(found) == is_one
    if is_one:
        assert f"{rounded:.0%} of the weights in {dtype}" in found[0].evidence[0]
        assert part in found[0].evidence[0]
        assert "float32 weights" in found[0].advice


@pytest.mark.parametrize(("optimizer", "moved", "is_one"), [
    ("LBFGS", 1, False), ("LBFGS", 0, True), ("SGD", 1, True), ("SparseAdam", 0, False),
])  # fmt: skip
def test_an_optimizer_that_stops_by_itself_has_arrived(optimizer, moved, is_one):
    """Of a table that SparseAdam trains, the elements that are compared may be of rows that no batch reads."""
    ratio = np.zeros(STEPS)
    ratio[:moved] = 0.3
    found = evidence(
        facts=Facts(steps=STEPS, optimizer=optimizer), loss=np.r_[2.3, np.full(STEPS - 1, 0.7)], update_ratio=ratio,
        **{"total_norm/gradients": np.full(STEPS, 1e-6)},
    )  # fmt: skip
    assert ("no_update" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("falls_to", "is_one"), [(0.4, False), (2.2, True)])
def test_gradients_that_are_gone_at_a_step_have_done_their_work_where_the_loss_falls(falls_to, is_one):
    """As in a loop without an optimizer, which changes weights and zeroes gradients before it calls the session."""
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), std=0.2, role="without_gradient")
    facts = Facts(steps=STEPS, parameters=(weight,), loss=LossFacts(kind="cross_entropy", reduction="mean"))
    causes = diagnose(evidence(facts=facts, loss=np.linspace(2.3, falls_to, STEPS)))

    assert ("no_update" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("farthest", "learnt", "is_one"), [
    (0.0049, 0.05, True), (0.0051, 0.05, False), (0.0049, 0.35, False), (None, 0.05, False),
])  # fmt: skip
def test_weights_that_never_get_as_far_as_half_a_step_are_put_back(farthest, learnt, is_one):
    facts = Facts(steps=STEPS, farthest=farthest, parameters=(ParameterFacts(name="fc.weight", shape=(8, 8), std=0.2),))
    causes = diagnose(evidence(
        facts=facts, loss=np.linspace(2.3, 2.3 * (1 - learnt), STEPS), update_ratio=np.full(STEPS, 0.01),
    ))  # fmt: skip
    found = [cause for cause in causes if cause.code == "no_update"]
    assert any("something puts them back" in cause.evidence[0] for cause in found) == is_one
    assert any("overwrites the weights" in cause.advice for cause in found) == is_one


@pytest.mark.parametrize("puts_back", [True, False])
def test_averaged_weights_that_are_copied_back_after_each_step_are_named(puts_back):
    torch.manual_seed(0)
    rows = torch.randn(512, 16)
    targets = (rows @ torch.randn(16)).sign().clamp(min=0).long()
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
    )
    averaged.update_parameters(model)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(2 * STEPS):
            batch = torch.randint(512, (64,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), targets[batch]).backward()
            optimizer.step()
            averaged.update_parameters(model)
            if puts_back:
                model.load_state_dict(averaged.module.state_dict())
        causes = session.report().causes

    assert [cause.code for cause in causes][:1] == ["no_update"] * puts_back
    if puts_back:
        assert "something puts them back" in causes[0].evidence[0]


@pytest.mark.parametrize(("factor", "is_told"), [(0.0, True), (1.0, False)])
def test_gradients_that_are_all_zero_are_told_of_weights_that_stand_still(factor, is_told):
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(STEPS):
            optimizer.zero_grad()
            (factor * model(torch.randn(64, 16))).square().mean().backward()
            optimizer.step()
        (cause, *_) = session.report().causes

    assert cause.code == "no_update"
    assert ("all gradients are zero, at each step" in cause.evidence) == is_told
    assert ("float16" in cause.advice) == is_told


@pytest.mark.parametrize(
    ("used", "left", "before", "is_one"),
    [(75, 0.0, 1.0, True), (76, 0.0, 1.0, False), (75, 1e-9, 1.0, False), (75, 0.0, 0.0, False)],
)
def test_gradients_that_are_zeroed_before_the_step_from_mid_training_on_are_used_no_more(used, left, before, is_one):
    late = np.array([80, 90])
    made = evidence(facts=Facts(steps=100), **{
        "total_norm/gradients": np.where(np.arange(100) < used, 1.0, 0.0),
        "clipped_norm": Series(late, np.full(2, left)), "unclipped_norm": Series(late, np.full(2, before)),
    })  # fmt: skip
    cause = no_update(made).cause
    assert (cause is not None) == is_one
    if is_one:
        assert cause.since_step == used
        assert "something sets them to zero in between" in cause.evidence[0]
        assert f"from step {used} on, and call zero_grad() before the backward pass" in cause.advice


@pytest.mark.parametrize("first", [True, False])
def test_a_step_before_the_backward_pass_has_no_gradients(first):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(60):
            rows = torch.randn(32, 8)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(rows), rows[:, :3].argmax(1))
            if first:
                optimizer.step()
            loss.backward()
            if not first:
                optimizer.step()
    causes = session.report().causes
    assert ("no_update" in [cause.code for cause in causes]) == first
    if first:
        assert "the step comes before the backward pass" in causes[0].evidence[0]


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("zeroed", "Call zero_grad() before the backward pass or after optimizer.step(), not between"),
        ("put back", "Look for what overwrites the weights after steps, such as load_state_dict"),
        ("of a copy", "Check that the optimizer holds the parameters of this model (not of a copy)"),
    ],
)
def test_the_advice_fits_the_reason_why_weights_stay(fault, advice):
    torch.manual_seed(0)
    rows = torch.randn(256, 16)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0 if fault == "of a copy" else 1e-3)
    first = copy.deepcopy(model.state_dict())
    with stepscope.watch(model, optimizer) as session:
        for step in range(100):
            batch = torch.randint(256, (32,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), rows[batch, :4].argmax(1)).backward()
            if fault == "zeroed":
                optimizer.zero_grad()
            optimizer.step()
            if fault == "put back" and step % 5 == 4:
                model.load_state_dict(first)
        cause = next(one for one in session.report().causes if one.code == "no_update")

    assert cause.advice.startswith(advice)
