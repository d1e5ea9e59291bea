"""What a session learns by itself is in its evidence and in the run's store, also of a training that ends early."""

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.diagnosis.facts import FACTS_NAME
from debuggers.diagnosis.stored_facts import decode
from debuggers.torch_internals.backward_entry import current_entry


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train(model, optimizer, *, steps=12, zero=True):
    losses = []
    for _ in range(steps):
        if zero:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(3, (6,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def stored(emitter):
    return [decode(item.text) for item in emitter.artifacts if item.name == FACTS_NAME]


def test_an_unchanged_loop_has_its_loss_its_targets_and_its_facts():
    model, optimizer = network()
    emitter = MemoryEmitter()
    with stepscope.watch(model, optimizer, run=emitter) as session:
        losses = train(model, optimizer)
        evidence = session.evidence()

    assert [item.value for item in emitter.artifacts if item.name == "loss"] == pytest.approx(losses)
    assert evidence["loss"].values.tolist() == pytest.approx(losses)
    assert evidence["targets/classes"].values.max() == 3
    assert evidence.facts.loss.kind == "cross_entropy"
    assert evidence.facts.targets.integer
    assert [facts.steps for facts, _ in stored(emitter)] == [1, 10, 12]
    assert not evidence.facts.not_told


def test_a_told_loss_wins():
    model, optimizer = network()
    emitter = MemoryEmitter()
    with stepscope.watch(model, optimizer, run=emitter) as session:
        model(torch.randn(6, 4)).square().mean().backward()
        session.step(7.0)
        optimizer.step()

    assert [item.value for item in emitter.artifacts if item.name == "loss"] == [7.0]


def test_a_broken_invariant_is_a_finding_of_the_report_and_of_the_store():
    model, optimizer = network()
    emitter = MemoryEmitter()
    with stepscope.watch(model, optimizer, run=emitter) as session:
        train(model, optimizer, zero=False)

    assert "gradients_zeroed" in {finding.kind for finding in session.report().findings}
    facts, findings = stored(emitter)[-1]
    assert "gradients_zeroed" in {finding.kind for finding in findings}
    assert {one.name: one.broken for one in facts.invariants}["gradients_zeroed"] == 11


def test_the_exception_that_ends_a_training_is_a_fact():
    model, optimizer = network()
    emitter = MemoryEmitter()
    with pytest.raises(KeyError), stepscope.watch(model, optimizer, run=emitter):
        train(model, optimizer, steps=2)
        raise KeyError("gone")

    assert stored(emitter)[-1][0].error == "KeyError: 'gone'"


@pytest.mark.parametrize("disabled", [True, False])
def test_nothing_is_observed_where_it_is_not_wanted(monkeypatch, disabled):
    before = current_entry()
    if disabled:
        monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    model, optimizer = network()
    emitter = MemoryEmitter()
    with stepscope.watch(model, optimizer, run=emitter, diagnosis=False):
        assert current_entry() is before
        train(model, optimizer, steps=2)

    assert not stored(emitter)


def test_what_runs_in_a_pause_is_not_observed():
    before = current_entry()
    model, optimizer = network()
    with stepscope.watch(model, optimizer) as session:
        train(model, optimizer, steps=3)
        with session.paused():
            assert current_entry() is before
        assert current_entry() is not before
        train(model, optimizer, steps=3)

    assert current_entry() is before
    assert session.evidence().facts.steps == 6
