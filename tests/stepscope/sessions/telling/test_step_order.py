"""What a call of ``session.step`` belongs to in loops that are not one backward pass and one step after the other."""

import logging

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as judged
from tracker_adapters.testing import MemoryEmitter

import stepscope


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def steps_of(emitter, name):
    return [one.step for one in emitter.artifacts if one.name == name]


def values_of(emitter, name):
    return [one.value for one in emitter.artifacts if one.name == name]


def is_quiet(caplog):
    return not [one for one in caplog.records if one.levelno >= logging.WARNING]


def accumulate(where, *, tells_each):
    """Five steps of four micro-batches each, told for each of them or once a step."""
    model, emitter, losses = nn.Linear(4, 2), MemoryEmitter(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with stepscope.watch(model, optimizer, run=emitter, max_overhead=None) as session:
        for number in range(20):
            loss = model(torch.randn(8, 4)).square().mean() / 4
            loss.backward()
            losses.append(loss.item())
            is_last = number % 4 == 3
            if where == "before" and (is_last or tells_each):
                session.step(loss)
            if is_last:
                optimizer.step()
                if where == "zeroed":
                    optimizer.zero_grad()
            if where != "before" and (is_last or tells_each):
                session.step(loss)
            if is_last:
                optimizer.zero_grad()
    return emitter, losses, session


@pytest.mark.parametrize("where", ["after", "zeroed"])
def test_accumulation_told_once_a_step(where, caplog):
    emitter, losses, session = accumulate(where, tells_each=False)
    assert values_of(emitter, "loss") == losses[3::4]
    assert steps_of(emitter, "loss") == steps_of(emitter, "total_norm/gradients") == list(range(5))
    before, *_ = accumulate("before", tells_each=False)
    torch.manual_seed(0)
    before, *_ = accumulate("before", tells_each=False)
    assert values_of(before, "total_norm/gradients") == values_of(emitter, "total_norm/gradients")
    assert session.report().overhead.steps == 5
    assert is_quiet(caplog)


def test_accumulation_told_for_each_micro_batch_is_a_step_for_each_before_and_after():
    found = {}
    for where in ("before", "after"):
        torch.manual_seed(0)
        found[where] = accumulate(where, tells_each=True)
    (before, losses, _), (after, same, session) = found.values()
    assert losses == same
    assert values_of(after, "loss") == losses
    assert steps_of(after, "loss") == list(range(20))
    assert session.report().overhead.steps == 20
    norms, expected = (values_of(one, "total_norm/gradients") for one in (after, before))
    assert norms == expected


@pytest.mark.parametrize("together", [False, True])
def test_a_gan_told_at_the_end_of_an_iteration(together, caplog):
    """The generator's pass fills the gradients of the critic, whose step was before."""
    maker, critic, emitter = nn.Linear(4, 2), nn.Linear(2, 1), MemoryEmitter()
    optimizers = [torch.optim.Adam(one.parameters(), 1e-3) for one in (critic, maker)]
    if together:
        both = stepscope.watch(nn.ModuleList([critic, maker]), optimizers, run=emitter, max_overhead=None)
        sessions = (both, both)
    else:
        sessions = tuple(
            stepscope.watch(model, one, run=emitter.scoped(name), max_overhead=None)
            for model, one, name in zip((critic, maker), optimizers, ("critic", "maker"), strict=True)
        )
    expected = []
    for _ in range(12):
        real, fake = torch.randn(8, 2), maker(torch.randn(8, 4))
        optimizers[0].zero_grad()
        loss = judged(critic(real), torch.ones(8, 1)) + judged(critic(fake.detach()), torch.zeros(8, 1))
        loss.backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        fooled = judged(critic(fake), torch.ones(8, 1))
        fooled.backward()
        optimizers[1].step()
        for one, told in zip(sessions, (loss, fooled), strict=True):
            one.step(told)
        expected.append((loss.item(), fooled.item()))
    for one in sessions:
        one.close()
        assert one.last_step == 11
        assert one.report().overhead.steps == 12
    if together:
        assert values_of(emitter, "loss")[1:] == pytest.approx([first + second for first, second in expected][1:])
        assert steps_of(emitter, "loss") == list(range(12))
    else:
        assert values_of(emitter, "critic/loss") == [first for first, _ in expected]
        assert values_of(emitter, "maker/loss") == [second for _, second in expected]
    assert is_quiet(caplog)


@pytest.mark.parametrize(
    ("where", "zeroes"),
    [
        ("before", False),
        ("after", True),
        ("between", False),
        pytest.param("before", True, marks=pytest.mark.slow),
        pytest.param("after", False, marks=pytest.mark.slow),
        pytest.param("between", True, marks=pytest.mark.slow),
    ],
)
def test_several_optimizers_told_after_the_last(where, zeroes, caplog):
    model, emitter, losses = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), MemoryEmitter(), []
    optimizers = [torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[2].parameters(), 0.01)]
    with stepscope.watch(model, optimizers, run=emitter, max_overhead=None) as session:
        for _ in range(10):
            for one in optimizers if zeroes else ():
                one.zero_grad()
            loss = 3 * model(torch.randn(8, 4)).square().mean()
            loss.backward()
            losses.append(loss.item() / 3)
            if where == "before":
                session.step(loss / 3)
            optimizers[0].step()
            if where == "between":
                session.step(loss / 3)
            optimizers[1].step()
            if where == "after":
                session.step(loss / 3)
    assert values_of(emitter, "loss") == pytest.approx(losses)
    assert steps_of(emitter, "loss") == list(range(10))
    assert session.report().overhead.steps == 10
    assert is_quiet(caplog)


@pytest.mark.parametrize(
    ("fused", "skipped"),
    [
        (False, (0, 1)),
        (True, (4,)),
        pytest.param(True, (0, 1), marks=pytest.mark.slow),
        pytest.param(False, (4,), marks=pytest.mark.slow),
    ],
)
def test_steps_that_a_scaler_skips(fused, skipped):
    """A call for a step that was skipped counts it, as it does before; all others are counted once, and measured."""
    model, emitter, losses, norms = nn.Linear(4, 2), MemoryEmitter(), [], []
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with stepscope.watch(model, optimizer, run=emitter, scaler=scaler, max_overhead=None) as session:
        for number in range(12):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            scaler.scale(loss * (float("inf") if number in skipped else 1)).backward()
            scale = scaler.get_scale()
            norms.append(torch.stack([one.grad.norm() / scale for one in model.parameters()]).norm().item())
            scaler.step(optimizer)
            scaler.update()
            session.step(loss)
            losses.append(loss.item())
    assert values_of(emitter, "loss") == pytest.approx(losses)
    assert steps_of(emitter, "loss") == list(range(12))
    found = dict(
        zip(steps_of(emitter, "total_norm/gradients"), values_of(emitter, "total_norm/gradients"), strict=True)
    )
    sound = [number for number in range(12) if number not in skipped]
    assert [found[number] for number in sound] == pytest.approx([norms[number] for number in sound])
    assert session.last_step == 11


def iterated(iteration):
    """Six iterations of a linear layer's training, each with the session, the model, the optimizer and a loss."""
    model, emitter = nn.Linear(4, 2), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with stepscope.watch(model, optimizer, run=emitter) as session:
        for _ in range(6):
            iteration(session, model, optimizer, model(torch.randn(8, 4)).square().mean())
            optimizer.zero_grad()
    assert steps_of(emitter, "loss") == list(range(6))
    assert session.last_step == 5
    return values_of(emitter, "loss")


def test_a_call_between_forward_and_backward_is_a_step_as_ever():
    def iteration(session, model, optimizer, loss):
        session.step(loss)
        loss.backward()
        optimizer.step()

    iterated(iteration)


def test_a_pass_between_the_call_and_the_step_is_no_step():
    def iteration(session, model, optimizer, loss):
        loss.backward()
        session.step(loss)
        model.weight.square().sum().backward()
        optimizer.step()

    iterated(iteration)


def test_a_step_without_gradients_is_told_after_it():
    told = iter(range(1, 7))

    def iteration(session, model, optimizer, loss):
        optimizer.step()
        session.step(float(next(told)))

    assert iterated(iteration) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_passes_that_are_not_seen_are_told_before_each_step_as_ever():
    def iteration(session, model, optimizer, loss):
        parameters = list(model.parameters())
        for one, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            one.grad = gradient
        session.step(loss)
        optimizer.step()

    iterated(iteration)
