"""Pages are written behind the caller, in order, within a budget; what fails is reported and hangs nothing."""

import threading

import numpy as np
import pytest

from debuggers.errors import PageError
from debuggers.page_files.writer import FinishedPage, PageWriter
from debuggers.pages import PageReader

DEADLINE_S = 20


class Gate:
    """An array that keeps the writer busy until the gate opens, and signals that the writer got there."""

    nbytes = 0

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()

    def resolve(self):
        self.entered.set()
        assert self.opened.wait(DEADLINE_S)
        return np.zeros(1)


class Broken:
    nbytes = 0

    def resolve(self):
        raise OSError("no space left")


class Journal:
    def __init__(self):
        self.written, self.failed = [], []

    def writer(self, budget_bytes=100, stall_timeout_s=DEADLINE_S):
        return PageWriter(
            budget_bytes,
            on_written=lambda page, record: self.written.append((page.number, record.datapoints)),
            on_error=lambda page, error: self.failed.append((page.number, str(error))),
            stall_timeout_s=stall_timeout_s,
        )


def finished(folder, number, value=1.0, nbytes=10):
    return FinishedPage(folder=folder, number=number, datapoints={number: {"d": value}}, nbytes=nbytes, step=0)


def test_pages_appear_in_order_with_their_index(tmp_path):
    journal = Journal()
    writer = journal.writer()
    for number in range(5):
        writer.submit(finished(tmp_path, number))
    assert writer.flush(DEADLINE_S)
    assert journal.written == [(number, (number,)) for number in range(5)]
    assert list(PageReader(tmp_path)) == [0, 1, 2, 3, 4]


def test_a_page_that_fails_is_reported_and_the_rest_is_written(tmp_path):
    journal = Journal()
    writer = journal.writer()
    for number, value in enumerate([1.0, Broken(), 2.0]):
        writer.submit(finished(tmp_path, number, value))
    assert writer.flush(DEADLINE_S)
    assert journal.failed == [(1, "no space left")]
    assert list(PageReader(tmp_path)) == [0, 2]


def test_beyond_the_budget_the_caller_waits(tmp_path):
    journal, gate = Journal(), Gate()
    writer = journal.writer(budget_bytes=100)
    writer.submit(finished(tmp_path, 0, gate, nbytes=60))
    assert gate.entered.wait(DEADLINE_S)
    handed_over = threading.Event()

    def submit():
        writer.submit(finished(tmp_path, 1, nbytes=60))
        handed_over.set()

    thread = threading.Thread(target=submit)
    thread.start()
    assert not handed_over.wait(0.1)
    gate.opened.set()
    assert handed_over.wait(DEADLINE_S)
    thread.join(DEADLINE_S)
    assert writer.flush(DEADLINE_S)
    assert [number for number, _ in journal.written] == [0, 1]


def test_a_page_larger_than_the_budget_is_taken_alone(tmp_path):
    journal = Journal()
    writer = journal.writer(budget_bytes=100)
    for number in range(3):
        writer.submit(finished(tmp_path, number, nbytes=1000))
    assert writer.flush(DEADLINE_S)
    assert len(journal.written) == 3


def test_a_stalled_disk_costs_the_page_and_not_the_run(tmp_path):
    journal, gate = Journal(), Gate()
    writer = journal.writer(budget_bytes=100, stall_timeout_s=0.05)
    writer.submit(finished(tmp_path, 0, gate, nbytes=60))
    with pytest.raises(PageError, match=r"page_1\.pkl.*no page was written for 0\.05 s"):
        writer.submit(finished(tmp_path, 1, nbytes=60))
    assert not writer.flush(0.05)
    gate.opened.set()
    assert writer.flush(DEADLINE_S)
    assert [number for number, _ in journal.written] == [0]


def test_no_thread_lives_on_without_pages(tmp_path):
    writer = Journal().writer()
    writer.submit(finished(tmp_path, 0))
    assert writer.flush(DEADLINE_S)
    for thread in threading.enumerate():
        if thread.name == "stepscope-page-writer":
            thread.join(DEADLINE_S)
            assert not thread.is_alive()


def test_without_a_thread_the_caller_writes(tmp_path, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    journal = Journal()
    writer = journal.writer()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        writer.submit(finished(tmp_path, 0))
        writer.submit(finished(tmp_path, 1))
        assert writer.flush(0)
    writer.submit(finished(tmp_path, 2))
    assert writer.flush(DEADLINE_S)
    assert list(PageReader(tmp_path)) == [0, 1, 2]
    assert journal.failed == []
