"""A heartbeat is stored while a rank lives, and its stack once for each stop."""

import re
import threading

import pytest
from tracker_adapters.testing import MemoryEmitter

from debuggers.diagnosis.rank_facts import HEARTBEAT_NAME, STACK_NAME
from debuggers.errors import DebuggerConfigError
from debuggers.ranks.heartbeat import HANG_S, VARIABLE, Heartbeat, hang_seconds


class Told(MemoryEmitter):
    """Says when a text of a step, and when a number of scalars, has come."""

    def __init__(self, awaited_step=0):
        super().__init__()
        self.awaited_step = awaited_step
        self.stack, self.beats = threading.Event(), threading.Semaphore(0)

    def text(self, name, text, *, step=None):
        super().text(name, text, step=step)
        if step == self.awaited_step:
            self.stack.set()

    def scalar(self, name, value, *, step=None):
        super().scalar(name, value, step=step)
        self.beats.release()


def test_a_stop_is_told_once_with_the_place_in_the_users_code():
    emitter = Told(awaited_step=7)
    heartbeat = Heartbeat(emitter, hang_s=0.05)
    heartbeat.step(7)  # this thread may be late with it, which is a stop of its own
    assert emitter.stack.wait(60)
    for _ in range(5):
        assert emitter.beats.acquire(timeout=60)
    heartbeat.close()
    (told,) = [one.text for one in emitter.artifacts if one.name == STACK_NAME and one.step == 7]
    assert re.match(r"last step: 7\nseconds since: \d+\ncollectives: -1\nin: test_heartbeat.py, line ", told)
    assert "test_a_stop_is_told_once" in told
    assert {one.name for one in emitter.artifacts} == {STACK_NAME, HEARTBEAT_NAME}


def test_a_pause_is_no_stop():
    emitter = Told()
    heartbeat = Heartbeat(emitter, hang_s=0.02)
    heartbeat.pause()
    while emitter.beats.acquire(blocking=False):  # this thread may have been late with the pause
        pass
    assert emitter.beats.acquire(timeout=60)
    emitter.stack.clear()  # what was told before the pause has come before this beat
    for _ in range(8):
        assert emitter.beats.acquire(timeout=60)
    heartbeat.close()
    assert not emitter.stack.is_set()


@pytest.mark.parametrize("said", ["0", "-1", "soon", "nan", "inf"])
def test_a_wrong_variable_is_named(monkeypatch, said):
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(DebuggerConfigError, match=f"{VARIABLE} is '{said}'; expected a positive number"):
        hang_seconds()


def test_by_default_it_is_a_minute(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert hang_seconds() == HANG_S
