"""A finding of a real training reaches a webhook by the delivery process, also one that is down, slow or broken."""

import time

import pytest
import torch
from webhook_server import receiver

import stepscope
from stepscope.sync import sync_runs


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


def train(run, steps=8, faulty=4):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    slowest = 0.0
    with stepscope.DebugSession(model, optimizer, run=run, on_finding={"non_finite_loss": "notify"}) as session:
        for step in range(steps):
            begun = time.monotonic()
            optimizer.zero_grad()
            loss = model(torch.randn(4, 2)).square().mean() * (torch.nan if step == faulty else 1)
            loss.backward()
            session.step(loss)
            optimizer.step()
            slowest = max(slowest, time.monotonic() - begun)
    return slowest


def kept(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_finding_is_posted_and_the_address_is_stored_nowhere(tmp_path, monkeypatch):
    with receiver() as server:
        monkeypatch.setenv("MY_HOOK", server.url)
        with stepscope.open_run(tmp_path / "exp1", sinks=["webhook:MY_HOOK"]) as run:
            train(run)
            assert run.flush(timeout=60)
    ((_, _, body),) = server.posts
    assert (body["run"], body["kind"], body["step"], body["level"]) == ("exp1", "non_finite_loss", 4, "error")
    content = kept(tmp_path)
    assert b"MY_HOOK" in content
    assert b"T0P53CR3T" not in content


def test_a_receiver_that_fails_first_or_is_down_gets_it_later_and_once(tmp_path, monkeypatch):
    with receiver() as server:
        port = server.port
        monkeypatch.setenv("MY_HOOK", server.url)
    with stepscope.open_run(tmp_path / "exp1", sinks=["webhook:MY_HOOK"]) as run:
        train(run)
        assert not run.flush(timeout=0.5)
        with receiver(port, answers=[503, 429]) as server:
            server.wait_for(3)
            assert run.flush(timeout=60)
    assert len({headers["Idempotency-Key"] for _, headers, _ in server.posts}) == 1
    assert len(server.posts) == 3


def test_a_receiver_that_never_answers_holds_up_no_training_and_gets_it_by_sync(tmp_path, monkeypatch):
    with receiver() as server:
        monkeypatch.setenv("MY_HOOK", server.url)
        server.open_gate.clear()
        sinks = [{"type": "webhook", "target": "MY_HOOK", "deadline_s": 1.0}]
        run = stepscope.open_run(tmp_path / "exp1", sinks=sinks)
        slowest = train(run)
        server.wait_for(1)
        assert not run.flush(timeout=0.2)
        run.close(timeout=1)
        assert slowest < 30  # of the minute for which the receiver says nothing
        server.open_gate.set()
        sync_runs([tmp_path / "exp1"], to="webhook:MY_HOOK")
        assert {body["kind"] for _, _, body in server.posts} == {"non_finite_loss"}
        assert len({headers["Idempotency-Key"] for _, headers, _ in server.posts}) == 1
