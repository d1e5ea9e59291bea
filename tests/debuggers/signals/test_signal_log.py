"""When rules see what is noted."""

import math

import pytest
from tracker_adapters.testing import MemoryEmitter

from debuggers.detectors.signal_detector import SignalDetector
from debuggers.instrumentation.isolation import Isolation
from debuggers.signals import signal_log
from debuggers.signals.judge import SignalJudge
from debuggers.signals.signal_log import SignalLog


class Anything(SignalDetector):
    """Tells of each value."""

    kind, level, signals, rule, evidence = "anything", "warning", frozenset({"loss"}), "a value", "{value}"

    def check(self, step, signal, value):
        return value, 0.0


def fail(message):
    raise AssertionError(message)


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(signal_log, "HELD_S", math.inf)  # however slow this machine is
    judge = SignalJudge([], MemoryEmitter(), Isolation("raise", fail))
    made = SignalLog(None, judge)
    made.begun = []
    judge.on_begun = made.begun.extend
    made.judge_noted()
    for step in range(100):
        made.note(step, "loss", 1.0)
    return made


def test_rules_see_noted_values_together_and_in_their_order(log):
    log.note(100, "loss", 50.0)
    log.note(101, "loss", 1.0)
    log.step_ends()
    assert not log.begun
    log.put(101, {"process_mb": 1.0})
    assert [(one.kind, one.step) for one in log.begun] == [("loss_spike", 100)]
    assert log.series()["loss"].steps.tolist() == list(range(102))


def test_what_is_noted_is_in_the_series_at_once(log):
    log.note(100, "loss", 2.0)
    assert log.series()["loss"].values[-1] == 2.0


def test_a_value_that_is_not_finite_is_seen_at_once(log):
    log.note(100, "loss", 50.0)
    log.note(101, "loss", math.nan)
    assert [one.step for one in log.begun] == [100]


def test_rules_of_the_user_see_each_step_when_it_ends():
    emitter = MemoryEmitter()
    log = SignalLog(None, SignalJudge([Anything()], emitter, Isolation("raise", fail)))
    log.judge_noted()
    log.note(0, "loss", 1.0)
    assert not emitter.artifacts
    log.step_ends()
    assert [alert.step for alert in emitter.artifacts] == [0]
