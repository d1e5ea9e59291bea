"""Optimizers are watched from their first step on, whoever makes them, and the training is the same bit for bit."""

import gc
import os
import weakref

import pytest
import torch

import stepscope
from stepscope.integrations.session_options import SessionOptions
from stepscope.scripts import trainings
from stepscope.scripts.trainings import WatchedOptimizers


class Generator(torch.nn.Linear):
    pass


class Judge(torch.nn.Linear):
    pass


def step(model, optimizer, seed=0):
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def trained(steps, seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return [step(model, optimizer, number) for number in range(steps)], model


@pytest.fixture
def run(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        yield run


def names(run):
    run.flush_store()
    with stepscope.read_run(run.path) as record:
        return {info.name: info for info in record.names(0)}


def test_a_training_is_watched_from_its_first_step_and_the_same(run):
    plain, _ = trained(20)
    watched = WatchedOptimizers(run, SessionOptions())
    losses, model = trained(20)
    watched.end()
    assert losses == plain
    assert names(run)["total_norm/gradients"].count == 20
    assert "stepscope/report" in names(run)
    step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert names(run)["total_norm/gradients"].count == 20


def test_the_optimizers_of_a_gan_have_a_session_each(run):
    generator, judge = Generator(4, 4), Judge(4, 1)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (generator, judge)]
    watched = WatchedOptimizers(run, SessionOptions())
    for _ in range(3):
        step(generator, optimizers[0])
        step(judge, optimizers[1])
    assert len(watched.sessions) == 2
    watched.end()
    found = names(run)
    assert found["total_norm/gradients"].count == found["judge/total_norm/gradients"].count == 3


def test_what_somebody_watches_is_left_alone(run, caplog):
    watched = WatchedOptimizers(run, SessionOptions())
    model = Generator(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        step(model, optimizer)
    assert session.last_step == 0
    assert not watched.sessions
    assert not caplog.records
    watched.end()


def test_one_model_after_the_other_is_let_go(run, monkeypatch):
    monkeypatch.setattr(trainings, "OVER_AFTER", 5)
    watched = WatchedOptimizers(run, SessionOptions())
    _, model = trained(7)
    gone = weakref.ref(model)
    del model
    _, second = trained(3)
    gc.collect()
    assert gone() is None
    assert len(watched.sessions) == 1
    watched.end()
    found = names(run)
    assert found["total_norm/gradients"].count == 7
    assert found["sequential/total_norm/gradients"].count == 3
    assert second is not None


def test_a_training_that_goes_on_after_another_one_is_watched_again(run, monkeypatch):
    monkeypatch.setattr(trainings, "OVER_AFTER", 5)
    watched = WatchedOptimizers(run, SessionOptions())
    first, second = Generator(4, 4), Judge(4, 1)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (first, second)]
    for count in (7, 3):
        for _ in range(count):
            step(first, optimizers[0])
        for _ in range(count):
            step(second, optimizers[1])
    watched.end()
    found = names(run)
    assert found["total_norm/gradients"].count == 10
    assert found["total_norm/gradients"].last_step == 9
    assert found["judge/total_norm/gradients"].count == 10


def test_what_a_forked_process_trains_is_left_alone(run, capfd):
    watched = WatchedOptimizers(run, SessionOptions())
    plain, _ = trained(3)
    started = len(watched.sessions)
    child = os.fork()
    if child == 0:
        losses, _ = trained(3)
        ended_well = losses == plain and len(watched.sessions) == started and watched.seen == 1
        os._exit(0 if ended_well else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    watched.end()
    assert "forked process" not in capfd.readouterr().err
    assert started == 1


def test_an_optimizer_without_a_model_is_stepped_and_left_out(run, caplog):
    watched = WatchedOptimizers(run, SessionOptions())
    value = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([value], lr=0.1)
    for _ in range(3):
        value.square().sum().backward()
        optimizer.step()
    assert watched.seen == 1
    assert not watched.sessions
    assert not caplog.records
    watched.end()


def test_no_failure_of_ours_reaches_the_training(run, monkeypatch, caplog):
    def broken(optimizer, models):
        raise RuntimeError("no modules today")

    monkeypatch.setattr(trainings, "model_of", broken)
    watched = WatchedOptimizers(run, SessionOptions())
    losses, _ = trained(3)
    watched.end()
    assert len(losses) == 3
    assert caplog.text.count("starting a session failed: RuntimeError: no modules today") == 1
