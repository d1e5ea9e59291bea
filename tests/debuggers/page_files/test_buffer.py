"""The buffer fills pages to their size, sends them to the round's folder, and keeps every datapoint once."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from debuggers.errors import PageError
from debuggers.page_files import buffer as page_buffer
from debuggers.page_files.buffer import PageBuffer
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.page_files.writer import PageWriter
from debuggers.pages import PageReader

DEADLINE_S = 30
KB = 1024


def buffer_of(page_size=10 * KB):
    return PageBuffer(page_size, on_written=lambda *_: None, on_error=lambda *_: None)


def datapoint(kilobytes=4):
    return {"d": {"map": np.zeros(kilobytes * KB, np.uint8)}}


def page_names(folder):
    return sorted(path.name for path in folder.glob("page_*.pkl"))


def test_a_page_is_handed_over_before_it_outgrows_its_size(tmp_path):
    buffer = buffer_of()
    buffer.open(tmp_path, DEADLINE_S)
    for idx in range(5):
        buffer.add({idx: datapoint()}, step=idx)
        assert buffer.page_bytes < 10 * KB
    assert (buffer.page_idx, list(buffer.page_data)) == (2, [4])
    assert buffer.save(DEADLINE_S)
    assert [record.datapoints for record in PageReader(tmp_path).records] == [(0, 1), (2, 3), (4,)]


def test_a_datapoint_larger_than_a_page_has_its_own(tmp_path):
    buffer = buffer_of()
    buffer.open(tmp_path, DEADLINE_S)
    for idx, kilobytes in enumerate([1, 50, 1]):
        buffer.add({idx: datapoint(kilobytes)}, step=0)
    assert buffer.save(DEADLINE_S)
    assert [record.datapoints for record in PageReader(tmp_path).records] == [(0,), (1,), (2,)]


def test_size_counts_storages_and_a_shared_one_once():
    buffer = buffer_of(page_size=1 << 30)
    shared = np.zeros(1_000_000)
    buffer.add({0: {"a": shared, "b": {"again": shared}}, 1: {"a": shared}}, step=0)
    assert shared.nbytes <= buffer.page_bytes < 1.01 * shared.nbytes


@pytest.mark.parametrize(
    "output",
    [[{} for _ in range(400)], [np.zeros(1) for _ in range(200)], [f"text {n}" for n in range(1000)], [0] * 6000],
    ids=["containers", "arrays", "texts", "numbers"],
)
def test_a_page_holds_no_more_objects_than_its_reader_accepts(tmp_path, output, monkeypatch):
    """Both limits are a five hundredth of what they are."""
    monkeypatch.setattr(page_buffer, "MAX_LOAD", page_buffer.MAX_LOAD // 500)
    limits = PageLimits(objects=LIMITS.objects // 500, operations=LIMITS.operations // 500)
    buffer = buffer_of(page_size=1 << 30)
    buffer.open(tmp_path, DEADLINE_S)
    for idx in range(10):
        buffer.add({idx: {"d": copy.deepcopy(output)}}, step=idx)
    assert buffer.save(DEADLINE_S)
    reader = PageReader(tmp_path, limits=limits)
    assert len(reader.records) > 1
    assert [len(outputs["d"]) for outputs in reader.values()] == [len(output)] * 10


def test_a_round_replaces_the_pages_of_an_earlier_one(tmp_path):
    buffer = buffer_of()
    for count in (6, 2):
        buffer.reset(DEADLINE_S)
        buffer.open(tmp_path, DEADLINE_S)
        for idx in range(count):
            buffer.add({idx: datapoint()}, step=0)
        assert buffer.save(DEADLINE_S)
    assert (list(PageReader(tmp_path)), page_names(tmp_path)) == ([0, 1], ["page_0.pkl"])


def test_a_round_has_one_folder(tmp_path):
    buffer = buffer_of()
    buffer.open(tmp_path / "a", DEADLINE_S)
    buffer.open(tmp_path / "b", DEADLINE_S)
    for idx in range(3):
        buffer.add({idx: datapoint()}, step=0)
    with pytest.raises(PageError, match=r"c: pages of this round already lie in .*b"):
        buffer.open(tmp_path / "c", DEADLINE_S)
    assert buffer.save(DEADLINE_S)
    assert list(PageReader(tmp_path / "b")) == [0, 1, 2]


def test_pages_on_their_way_do_not_reach_the_next_round(tmp_path):
    buffer = buffer_of()
    for _ in range(5):
        buffer.reset(DEADLINE_S)
        buffer.open(tmp_path, DEADLINE_S)
        for idx in range(8):
            buffer.add({idx: datapoint()}, step=0)
    buffer.reset(DEADLINE_S)
    buffer.open(tmp_path, DEADLINE_S)
    assert page_names(tmp_path) == []


def test_what_a_later_record_replaces_counts_until_the_page_is_handed_over():
    buffer = buffer_of(page_size=1000 * KB)
    for idx in range(1, 100):
        buffer.add({0: datapoint(1)}, step=idx)
        buffer.add({idx: datapoint(5)}, step=idx)
    assert buffer.page_bytes >= sum(entry["d"]["map"].nbytes for entry in buffer.page_data.values()) > 400 * KB


def test_a_disk_that_takes_no_page_costs_that_page_and_no_other_datapoint(tmp_path, monkeypatch):
    monkeypatch.setitem(PageWriter.__init__.__kwdefaults__, "stall_timeout_s", 0.05)
    opened = threading.Event()

    class Late:
        nbytes = 4 * KB

        def resolve(self):
            assert opened.wait(DEADLINE_S)
            return np.zeros(1)

    buffer = buffer_of()
    buffer.open(tmp_path, DEADLINE_S)
    buffer.add({0: {"d": {"map": Late()}}}, step=0)
    buffer.add({1: datapoint(8)}, step=1)
    with pytest.raises(PageError, match="no page was written"):
        buffer.add({2: datapoint(8)}, step=2)
    opened.set()
    assert buffer._writer.flush(DEADLINE_S), "the last page does not find the first unwritten for 50 ms"
    assert buffer.save(DEADLINE_S)
    assert list(PageReader(tmp_path)) == [0, 2]


def test_threads_add_one_after_the_other(tmp_path):
    """While one thread measures a datapoint for a new page, another adds its own: together they outgrow the page."""
    buffer = buffer_of()
    buffer.open(tmp_path, DEADLINE_S)
    buffer.add({0: datapoint(8)}, step=0)
    is_measuring, other_is_there = threading.Event(), threading.Event()
    lock = buffer._lock

    class ObservedLock:
        def __enter__(self):
            if is_measuring.is_set():
                other_is_there.set()
            return lock.__enter__()

        def __exit__(self, *error):
            return lock.__exit__(*error)

    class Slow:
        @property
        def nbytes(self):
            if buffer.page_idx == 1:
                is_measuring.set()
                assert other_is_there.wait(DEADLINE_S)
            return 4 * KB

        def resolve(self):
            return np.zeros(1)

    def add_another():
        assert is_measuring.wait(DEADLINE_S)
        buffer.add({2: datapoint(8)}, step=2)
        other_is_there.set()

    buffer._lock = ObservedLock()
    with ThreadPoolExecutor() as threads:
        added = [threads.submit(buffer.add, {1: {"d": {"map": Slow()}}}, step=1), threads.submit(add_another)]
        assert [future.result(DEADLINE_S) for future in added] == [None, None]
    assert buffer.save(DEADLINE_S)
    assert [record.datapoints for record in PageReader(tmp_path).records] == [(0,), (1,), (2,)]
