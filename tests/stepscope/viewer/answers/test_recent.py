"""What takes long to compute is computed once, and while a run lives nobody waits for it twice."""

import threading

import pytest

from stepscope.viewer.answers.recent import Recent

PATIENCE_S = 30


@pytest.mark.parametrize(("live", "told"), [(True, ("p1", "first")), (False, ("p2", "second"))])
def test_of_a_run_that_lives_an_earlier_value_is_told_while_another_thread_computes(monkeypatch, live, told):
    monkeypatch.setattr("stepscope.viewer.answers.recent.EVERY_S", 0.0)
    monkeypatch.setattr("stepscope.viewer.answers.recent.SHARE", 0)
    recent: Recent[str] = Recent(8)
    assert recent.get("key", "p1", lambda before: "first", live=live) == ("p1", "first")
    begun, may_end = threading.Event(), threading.Event()

    def compute(before):
        begun.set()
        assert may_end.wait(PATIENCE_S)
        return "second"

    slow = threading.Thread(target=recent.get, args=("key", "p2", compute), kwargs={"live": live})
    slow.start()
    assert begun.wait(PATIENCE_S)
    found = []
    other = threading.Thread(target=lambda: found.append(recent.get("key", "p2", lambda before: "never", live=live)))
    other.start()
    if live:
        other.join(PATIENCE_S)
    may_end.set()
    for thread in (other, slow):
        thread.join(PATIENCE_S)
    assert found == [told]
    assert recent.get("key", "p2", lambda before: "never", live=live) == ("p2", "second")
