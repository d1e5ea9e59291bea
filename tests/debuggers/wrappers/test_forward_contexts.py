"""Contexts around forwards are left by whoever entered them, in the reverse order."""

import threading
from contextlib import contextmanager

import pytest

from debuggers.wrappers.forward_contexts import ForwardContexts

DEADLINE_S = 30


class Journal:
    """Opens contexts that write down what happens to them; failures are returned as they are."""

    def __init__(self):
        self.lines = []

    def opening(self, name):
        return lambda: self.context(name)

    @contextmanager
    def context(self, name):
        self.lines.append(f"enter {name}")
        try:
            yield
        except ValueError as error:
            self.lines.append(f"{name} saw {error}")
            raise
        finally:
            self.lines.append(f"leave {name}")

    @staticmethod
    def attempt(function, *args):
        try:
            return function(*args)
        except Exception as error:
            return error


def test_nested_calls_leave_their_own_context():
    journal, contexts = Journal(), ForwardContexts()
    contexts.enter("a", journal.attempt, journal.opening("outer"))
    contexts.enter("b", journal.attempt, journal.opening("other"))
    contexts.enter("a", journal.attempt, journal.opening("inner"))
    assert [contexts.leave(owner) for owner in "aba"] == [None, None, None]
    assert journal.lines[3:] == ["leave inner", "leave other", "leave outer"]


def test_a_context_that_nobody_left_is_left_before_the_one_around_it():
    journal, contexts = Journal(), ForwardContexts()
    contexts.enter("a", journal.attempt, journal.opening("outer"))
    contexts.enter("b", journal.attempt, journal.opening("lost"))
    assert contexts.leave("a") is None
    assert journal.lines[2:] == ["leave lost", "leave outer"]


def test_leaving_what_was_not_entered_does_nothing():
    journal, contexts = Journal(), ForwardContexts()
    contexts.enter("a", journal.attempt, journal.opening("one"))
    assert contexts.leave("b") is None
    assert journal.lines == ["enter one"]


def test_all_can_be_left_at_once():
    journal, contexts = Journal(), ForwardContexts()
    for name in "abc":
        contexts.enter(name, journal.attempt, journal.opening(name))
    contexts.leave_all()
    assert journal.lines[3:] == ["leave c", "leave b", "leave a"]
    assert contexts.leave("a") is None


def test_an_exception_of_the_forward_reaches_the_context_and_is_not_held_back():
    journal, contexts = Journal(), ForwardContexts()
    contexts.enter("a", journal.attempt, journal.opening("one"))
    with pytest.raises(ValueError, match="stop"):
        try:
            raise ValueError("stop")
        except ValueError:
            assert contexts.leave("a") is None
            raise
    assert journal.lines[1:] == ["one saw stop", "leave one"]


def test_an_exception_that_the_caller_handles_is_none_of_the_forward():
    journal, contexts = Journal(), ForwardContexts()
    try:
        raise ValueError("before")
    except ValueError:
        contexts.enter("a", journal.attempt, journal.opening("one"))
        contexts.leave("a")
    assert journal.lines == ["enter one", "leave one"]


def test_failures_are_returned_when_the_call_ends():
    class FailsToClose:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            raise KeyError("on leaving")

    contexts = ForwardContexts()
    contexts.enter("a", Journal.attempt, lambda: 1 / 0)
    assert isinstance(contexts.leave("a"), ZeroDivisionError)
    contexts.enter("a", Journal.attempt, FailsToClose)
    assert isinstance(contexts.leave("a"), KeyError)
    contexts.enter("a", Journal.attempt, object)
    assert isinstance(contexts.leave("a"), AttributeError)
    contexts.enter("a", Journal.attempt, lambda: None)
    assert contexts.leave("a") is None


def test_threads_have_contexts_of_their_own():
    journal, contexts = Journal(), ForwardContexts()
    contexts.enter("a", journal.attempt, journal.opening("one"))
    thread = threading.Thread(target=contexts.leave_all)
    thread.start()
    thread.join(DEADLINE_S)
    assert journal.lines == ["enter one"]
    contexts.leave("a")
    assert journal.lines == ["enter one", "leave one"]
