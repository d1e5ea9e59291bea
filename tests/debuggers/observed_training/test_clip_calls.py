"""Clipping is observed while somebody observes it, computes what torch computes, and is told of scaled gradients."""

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

import stepscope
from debuggers.observed_training.clip_calls import ClipObservation
from debuggers.torch_internals.clip_entry import current_clip_entry, replace_clip_entry

KIND = "clipped_after_unscaling"


def clipped():
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    clip_grad_norm_(iter([weight]), max_norm=1.0)
    return weight.grad


@pytest.fixture
def plain():
    entry = current_clip_entry()
    yield entry
    assert current_clip_entry() is entry


def test_each_observer_is_told_until_it_ends_and_torch_has_its_own_again(plain):
    first, second = [], []
    expected = clipped()
    observations = [
        ClipObservation(lambda parameters, limit, norm: first.append((len(parameters), limit, norm.item()))),
        ClipObservation(lambda parameters, limit, norm: second.append((len(parameters), limit, norm.item()))),
    ]
    assert torch.equal(clipped(), expected)
    observations[0].remove()
    observations[0].remove()
    assert torch.equal(clipped(), expected)
    observations[1].remove()
    assert torch.equal(clipped(), expected)
    assert (first, second) == ([(1, 1.0, 5.0)], [(1, 1.0, 5.0)] * 2)


def test_what_somebody_else_puts_around_it_stays(plain):
    seen = []
    observation = ClipObservation(lambda *_: seen.append("ours"))
    inner = current_clip_entry()
    replace_clip_entry(lambda *arguments: (seen.append("theirs"), inner(*arguments)))
    observation.remove()
    clipped()
    other = ClipObservation(lambda *_: seen.append("other"))
    clipped()
    other.remove()
    replace_clip_entry(plain)
    assert seen[0] == "theirs"
    assert {"theirs", "other"} <= set(seen[1:])
    assert "ours" not in seen


def test_an_observer_that_fails_leaves_the_clipping_alone(plain, caplog):
    expected = clipped()
    observation = ClipObservation(lambda *_: 1 / 0)
    assert torch.equal(clipped(), expected)
    observation.remove()
    assert "could not be observed" in caplog.text


def trained(clip, *, scale=256.0, scaler_is_known=True, steps=5):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    with stepscope.watch(model, optimizer, scaler=scaler if scaler_is_known else None) as session:
        for _ in range(steps):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(8, 4)).square().mean()).backward()
            clip(model, optimizer, scaler)
            scaler.step(optimizer)
            scaler.update()
    return session


def before_unscaling(model, optimizer, scaler):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def after_unscaling(model, optimizer, scaler):
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def checks(session):
    return {fact.name: (fact.checked, fact.broken) for fact in session.evidence().facts.invariants}.get(KIND)


@pytest.mark.parametrize("scaler_is_known", [True, False])
def test_clipping_before_unscaling_is_a_finding_from_the_first_step(scaler_is_known):
    session = trained(before_unscaling, scaler_is_known=scaler_is_known)
    (finding,) = [one for one in session.report().findings if one.kind == KIND]
    assert (finding.step, finding.steps, finding.level) == (0, 5, "warning")
    assert "max_norm=0.5" in finding.message
    assert "scaler.unscale_(optimizer)" in finding.message


@pytest.mark.parametrize("scale", [256.0, 1.0])
def test_clipping_after_unscaling_breaks_nothing(scale):
    assert checks(trained(after_unscaling, scale=scale)) == (5, 0)


def test_a_scale_of_one_changes_no_limit():
    assert checks(trained(before_unscaling, scale=1.0)) == (5, 0)


def test_nothing_is_said_of_a_loop_that_does_not_clip_or_clips_another_model():
    other = torch.nn.Linear(4, 1)
    other.weight.grad = torch.ones(1, 4)
    assert checks(trained(lambda *_: None)) is None
    assert checks(trained(lambda *_: torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5))) is None


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copy_without_gradients_is_clipped_in_vain(is_copy):
    other = torch.nn.Linear(4, 1)
    other.weight.grad = None if is_copy else torch.ones(1, 4)
    session = trained(lambda *_: torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5), scale=1.0)
    found = [one for one in session.report().findings if one.kind == "clipped_gradients_exist"]
    assert [(one.step, one.steps, one.level) for one in found] == [(0, 5, "warning")] * is_copy
    assert ("clipping_ineffective" in [one.code for one in session.report().causes]) == is_copy


def test_parameters_of_a_generator_that_is_used_up_are_none():
    session = trained(lambda *_: torch.nn.utils.clip_grad_norm_(iter(()), 0.5), scale=1.0)
    (found,) = [one for one in session.report().findings if one.kind == "clipped_gradients_exist"]
    assert "no parameters" in found.message


def test_frozen_parameters_of_the_model_itself_may_be_clipped():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4).requires_grad_(False), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            clip_grad_norm_(model[0].parameters(), 0.5)
            optimizer.step()
    assert not [one for one in session.report().findings if one.kind == "clipped_gradients_exist"]


IN_TIME = "clipped_after_backward"


def looped(order, *, limit=0.5, steps=6):
    """A loop that does these things in this order at each step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    actions = {
        "zero": optimizer.zero_grad,
        "backward": lambda: model(torch.ones(8, 4)).square().mean().backward(),
        "clip": lambda: clip_grad_norm_(model.parameters(), limit),
        "step": optimizer.step,
    }
    with stepscope.watch(model, optimizer) as session:
        for _ in range(steps):
            for name in order.split():
                actions[name]()
    return session


@pytest.mark.parametrize(("order", "broken"), [
    ("zero backward clip step", 0),
    ("backward clip step zero", 0),
    ("zero clip backward step", 5),  # before the first step nothing is known
    ("zero backward step clip", 6),
])  # fmt: skip
def test_clipping_where_no_backward_pass_has_come_since_the_last_step_is_a_finding(order, broken):
    session = looped(order)
    findings = [one for one in session.report().findings if one.kind == IN_TIME]
    assert [(one.step, one.steps, one.level) for one in findings] == [(1, broken, "warning")] * bool(broken)
    assert ("clipping_ineffective" in [cause.code for cause in session.report().causes]) == bool(broken)


def test_a_norm_that_is_measured_by_an_infinite_limit_may_be_that_of_any_moment():
    session = looped("zero backward step clip", limit=float("inf"))
    assert IN_TIME not in {fact.name for fact in session.evidence().facts.invariants}
