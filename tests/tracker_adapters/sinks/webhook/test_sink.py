"""The webhook sink posts notifications once, tells refusals from outages, and never shows its address."""

import json
import logging
from pathlib import Path

import pytest
from tracker_adapters.artifacts import RunInfo, Scalar, Text
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkConfigError, SinkUnavailable
from tracker_adapters.registry import load_sink
from tracker_adapters.sinks.webhook import WebhookSink, posting
from webhook_server import receiver

FOLDER = Path("/nowhere")
FINDING = {"kind": "non_finite_loss", "name": "loss", "level": "error", "step": 3, "message": "loss: NaN at step 3"}


@pytest.fixture
def hook(monkeypatch):
    monkeypatch.setattr(WebhookSink, "_posted", {})
    monkeypatch.setenv("no_proxy", "*")
    with receiver() as server:
        monkeypatch.setenv("MY_HOOK", server.url)
        yield server


def opened(run="run1", token=None):
    sink = WebhookSink(**WebhookSink.resolve({"target": "MY_HOOK"}, FOLDER))
    sink.open(RunInfo(id=run, name="exp1", config={}, tags=[], status="running"), token)
    return sink


def notification(step=3, kind="non_finite_loss", scope="", text=None):
    content = json.dumps(FINDING) if text is None else text
    return Text(name=f"{scope}notifications/{kind}", step=step, time_ns=1, text=content)


def test_a_notification_is_posted_as_json_and_nothing_else_is(hook):
    sink = opened()
    others = [Text(name="notes", step=0, time_ns=1, text="a note"), Scalar(name="loss", step=0, time_ns=1, value=1.0)]
    assert sink.write(Batch.of([*others, notification(), notification(scope="D/")])) == {}
    (path, headers, body), (_, other_headers, other_body) = hook.posts
    assert path == "/hook/T0P53CR3T"
    assert headers["Content-Type"] == "application/json"
    assert body == FINDING | {"run": "exp1", "scope": "", "text": "exp1: non_finite_loss: loss: NaN at step 3"}
    assert other_body["scope"] == "D"
    assert headers["Idempotency-Key"] != other_headers["Idempotency-Key"]


def test_what_was_posted_is_not_posted_again(hook):
    first = opened()
    hook.answers = [200, 503]
    batch = Batch.of([notification(1), notification(2), notification(3)])
    with pytest.raises(SinkUnavailable, match="the address in MY_HOOK answered with status 503"):
        first.write(batch)
    second = opened()  # what delivery does after a failure
    second.write(batch)
    token = second.flush()
    assert len({headers["Idempotency-Key"] for _, headers, _ in hook.posts}) == 3
    assert len(hook.posts) == 4
    WebhookSink._posted.clear()  # as in another process
    opened(token=token).write(batch)
    assert len(hook.posts) == 4


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_of_the_content_is_counted_and_the_next_is_posted(hook, status, caplog):
    hook.answers = [status]
    sink = opened()
    with caplog.at_level(logging.WARNING):
        assert sink.write(Batch.of([notification(1), notification(2)])) == {"refused": 1}
    assert len(hook.posts) == 2
    assert "T0P53CR3T" not in caplog.text


@pytest.mark.parametrize("status", [301, 307, 401, 404, 408, 429, 500, 503])
def test_other_answers_are_tried_again_and_no_redirection_is_followed(hook, status):
    hook.answers = [status]
    with pytest.raises(SinkUnavailable, match=f"status {status}"):
        opened().write(Batch.of([notification()]))
    assert len(hook.posts) == 1


def test_a_receiver_that_is_gone_or_silent_is_an_outage_without_the_address(hook, monkeypatch):
    monkeypatch.setattr(posting, "TIMEOUT_S", 0.2)
    hook.open_gate.clear()
    with pytest.raises(SinkUnavailable, match="the address in MY_HOOK cannot be reached") as silent:
        opened().write(Batch.of([notification()]))
    monkeypatch.setenv("MY_HOOK", "http://127.0.0.1:9/T0P53CR3T")
    with pytest.raises(SinkUnavailable, match="Connection refused") as gone:
        opened().write(Batch.of([notification()]))
    assert "T0P53CR3T" not in f"{silent.getrepr()}{gone.value}{gone.value.__cause__}"


def test_a_text_that_is_no_finding_is_posted_as_it_is(hook):
    opened().write(Batch.of([notification(text="plain words", kind="mine")]))
    assert hook.posts[0][2] == {"message": "plain words", "run": "exp1", "scope": "", "text": "exp1: mine: plain words"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "MY_HOOK is not set"),
        ("", "MY_HOOK is not set"),
        ("ftp://host/T0P53CR3T", "begins with https:// or http://"),
        ("file:///etc/T0P53CR3T", "begins with https:// or http://"),
        ("T0P53CR3T", "holds no address"),
        ("https:///T0P53CR3T", "holds no address"),
        ("https://host:T0P53CR3T/", "holds no address"),
        ("https://host/T0P53CR3T\r\nX: y", "holds no address"),
    ],
)
def test_a_variable_that_holds_no_address_is_refused_without_showing_it(monkeypatch, value, message):
    monkeypatch.delenv("MY_HOOK", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_HOOK", value)
    with pytest.raises(SinkConfigError, match=message) as caught:
        WebhookSink.resolve({"target": "MY_HOOK"}, FOLDER)
    assert "T0P53CR3T" not in str(caught.value)
    with pytest.raises(SinkConfigError, match=message):
        WebhookSink("MY_HOOK").open(RunInfo(id="r", name="r", config={}, tags=[], status="running"), None)


def test_an_address_in_place_of_a_name_is_refused_without_showing_it():
    with pytest.raises(SinkConfigError, match="names no environment variable") as caught:
        WebhookSink.resolve({"target": "https://host/T0P53CR3T"}, FOLDER)
    assert "T0P53CR3T" not in str(caught.value)


def test_the_default_variable_and_the_place_are_named(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_WEBHOOK_URL", "https://host/T0P53CR3T")
    options = load_sink("webhook").resolve({}, FOLDER)
    assert options == {"target": "STEPSCOPE_WEBHOOK_URL"}
    assert WebhookSink.look(options) == "the address in $STEPSCOPE_WEBHOOK_URL"
