"""What producers hold: names, steps, copies, and errors at the caller's line."""

import copy
import math
import pickle
import threading
import time

import numpy as np
import pytest
import torch
from recording_queue import Queue
from tracker_adapters import emitter as emitter_module
from tracker_adapters.artifacts import Alert, File, Histogram, Image, Page, PageEntry, Scalar, Table, Text
from tracker_adapters.emitter import Deferred, Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter
from waiting import in_threads


@pytest.fixture
def emitter():
    return MemoryEmitter()


def emit_every_kind(emitter, folder, **step):
    (folder / "page_0.pkl").write_bytes(b"page")
    (folder / "notes.html").write_bytes(b"file")
    emitter.scalar("loss", 0.5, **step)
    emitter.histogram("grad", [1.0, 2.0], **step)
    emitter.image("input", np.zeros((2, 2), np.uint8), layout="HW", **step)
    emitter.text("notes", "text", **step)
    emitter.alert("nan", "message", level="error", **step)
    emitter.table("layers", ["layer"], [["fc1"]], **step)
    emitter.page(folder / "page_0.pkl", contents=[PageEntry(datapoint=1, debugger="d", summary="s")], **step)
    emitter.file(folder / "notes.html", media_type="text/html", **step)


def test_each_call_makes_one_artifact_of_its_kind(emitter, tmp_path):
    before = time.time_ns()
    emit_every_kind(emitter, tmp_path, step=3)
    after = time.time_ns()
    made = emitter.artifacts
    assert [type(artifact) for artifact in made] == [Scalar, Histogram, Image, Text, Alert, Table, Page, File]
    names = ["loss", "grad", "input", "notes", "nan", "layers", "page_0", "notes.html"]
    assert [artifact.name for artifact in made] == names
    assert {artifact.step for artifact in made} == {3}
    assert all(before <= artifact.time_ns <= after for artifact in made)


def test_a_page_may_come_with_its_checksum(emitter, tmp_path):
    (tmp_path / "page_0.pkl").write_bytes(b"page")
    emitter.page(tmp_path / "page_0.pkl", step=0, sha256="ab" * 32)
    (page,) = emitter.artifacts
    assert isinstance(page, Page)
    assert (page.size, page.sha256) == (4, "ab" * 32)


def test_scopes_and_steps_are_derived_and_leave_the_original_alone(emitter, tmp_path):
    emit_every_kind(emitter.scoped("val").scoped("fold/1").at(7), tmp_path)
    emitter.at(1).scoped("val").at(8).scalar("loss", 1.0)
    emitter.at(1).scalar("loss", 1.0, step=9)  # a step of the call's own goes first
    *first, derived, own = emitter.artifacts
    assert {artifact.step for artifact in first} == {7}
    assert all(artifact.name.startswith("val/fold/1/") for artifact in first)
    assert [(derived.name, derived.step), (own.name, own.step)] == [("val/loss", 8), ("loss", 9)]
    with pytest.raises(ArtifactError, match=r"^scalar 'loss': no step given; pass step=… or emit through"):
        emitter.scalar("loss", 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.scalar(3, 1.0), r"^scalar: the name is int 3"),
        (lambda e: e.scalar("", 1.0), r"^scalar: the name '' has 0 characters"),
        (lambda e: e.scalar("x" * 999, 1.0), r"^scalar: the name 'val/x.*has 1003 characters; expected 1 to 1000"),
        (lambda e: e.scalar("s", "1"), r"^scalar 'val/s': got str '1'; expected a number"),
        (lambda e: e.scalar("s", None), r"^scalar 'val/s': got NoneType None"),
        (lambda e: e.scalar("s", torch.ones(2)), r"^scalar 'val/s': got shape \(2,\)"),
        (lambda e: e.scalar("s", torch.ones((), device="meta")), r"^scalar 'val/s': got a meta tensor"),
        (lambda e: e.scalar("s", 1.0, step=-1), r"^scalar 'val/s': step is -1; expected an integer from 0"),
        (lambda e: e.scalar("s", 1.0, step=1.5), r"^scalar 'val/s': step is float 1.5"),
        (lambda e: e.scalar("s", 1.0, step=True), r"^scalar 'val/s': step is the bool True"),
        (lambda e: e.scalar("s", 1.0, step=2**63), r"^scalar 'val/s': step is 9223372036854775808"),
        (lambda e: e.histogram("h", "abc"), r"^histogram 'val/h': got str 'abc'"),
        (lambda e: e.histogram("h", torch.ones(1).to_sparse()), r"^histogram 'val/h': .*sparse"),
        (lambda e: e.image("i", np.zeros((2, 2)), layout="HW"), r"^image 'val/i': .*value_range"),
        (lambda e: e.text("t", 3), r"^text 'val/t': text is int 3; expected a str"),
        (lambda e: e.alert("a", "m", level="fatal"), r"^alert 'val/a': level is 'fatal'"),
        (lambda e: e.table("t", ["a"], [[1, 2]]), r"^table 'val/t': row 0 is \[1, 2\]"),
        (lambda e: e.page("missing.pkl"), r"^page 'val/missing': cannot read .*missing.pkl"),
        (lambda e: e.page(None), r"^page: path is NoneType None; expected a path"),
        (lambda e: e.file(3, name="f"), r"^file 'val/f': path is int 3; expected a path"),
        (lambda e: e.scoped(""), r"^scope: the name '' has 0 characters"),
        (lambda e: e.at(-1), r"^scope 'val/': step is -1"),
        (lambda e: e.at(None), r"^scope 'val/': step is NoneType None"),
    ],
)
def test_wrong_arguments_raise_at_once_and_emit_nothing(emitter, call, message):
    with pytest.raises(ArtifactError, match=message):
        call(emitter.scoped("val").at(0))
    assert emitter.artifacts == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1, 1.0), (True, 1.0), (np.float32(0.5), 0.5), (torch.tensor(0.5, requires_grad=True), 0.5), (math.inf, math.inf)],
    ids=str,
)
def test_numbers_of_every_make_are_scalars(emitter, value, wanted):
    emitter.scalar("s", value, step=np.int64(4))  # type: ignore[arg-type]
    (scalar,) = emitter.artifacts
    assert scalar == Scalar(name="s", value=wanted, step=4, time_ns=scalar.time_ns)


def test_a_scalar_may_come_with_the_time_of_its_measurement(emitter):
    emitter.scalar("s", 1.0, step=4, time_ns=17)
    emitter.scalar("s", True, step=5, time_ns=18)
    assert [artifact.time_ns for artifact in emitter.artifacts] == [17, 18]
    with pytest.raises(ArtifactError, match="time_ns is -1"):
        emitter.scalar("s", 1.0, step=6, time_ns=-1)


def test_a_scalar_is_queued_as_a_plain_row(tmp_path):
    queue = Queue()
    Emitter(queue).scoped("val").scalar("loss", np.float64(0.5), step=3)
    ((name, step, _, value), _) = queue.items[0]
    assert (name, step, value) == ("val/loss", 3, 0.5)


def test_what_is_queued_says_how_much_memory_it_holds():
    queue = Queue()
    emitter = Emitter(queue)
    emitter.image("i", np.zeros((100, 100, 3), np.uint8), layout="HWC", step=0)
    emitter.text("t", "x" * 5000, step=0)
    emitter.table("t", ["a"], [[1]] * 500, step=0)
    assert [nbytes >= wanted for (_, nbytes), wanted in zip(queue.items, (30_000, 5000, 5000), strict=True)] == [
        True
    ] * 3


def test_a_file_that_the_recorder_lost_is_not_queued(tmp_path):
    queue = Queue()
    (tmp_path / "f").write_bytes(b"")
    Emitter(queue).file(tmp_path / "f", step=0)
    assert queue.items == []


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_training_goes_on_and_changes_nothing_that_was_recorded(make):
    """Host arrays are read at the call; what is built later is built from a copy."""
    queue = Queue()
    emitter = Emitter(queue)
    values, picture = make([1.0, 2.0]), make([[1.0, 0.0]])
    emitter.histogram("h", values, step=0)
    emitter.image("i", picture, layout="HW", value_range=(0, 1), step=0)
    emitter.scalar("s", values[0], step=0)
    values[:], picture[:] = 9.0, 0.5
    histogram, image, (*_, value) = (item for item, _ in queue.items)
    assert histogram == Histogram.from_values("h", [1.0, 2.0], step=0, time_ns=histogram.time_ns)
    assert isinstance(image, Deferred)
    assert image.build() == Image.from_array(
        "i", [[1.0, 0.0]], layout="HW", value_range=(0, 1), step=0, time_ns=image.build().time_ns
    )
    assert value == 1.0


def test_many_threads_can_emit_at_once(emitter):
    start = threading.Barrier(8)

    def work(number):
        mine = emitter.scoped(f"thread{number}")
        start.wait(60)
        for step in range(500):
            mine.scalar("loss", float(step), step=step)

    in_threads(work, range(8))
    for number in range(8):
        steps = [artifact.step for artifact in emitter.artifacts if artifact.name == f"thread{number}/loss"]
        assert steps == list(range(500))


def test_a_name_a_step_by_mistake_fills_no_memory(monkeypatch):
    monkeypatch.setattr(emitter_module, "MAX_KNOWN_NAMES", 50)
    queue = Queue()
    emitter = Emitter(queue)
    for step in range(500):
        emitter.at(step).scalar(f"loss/{step}", 1.0)
    assert len(emitter._known_names) <= 50
    assert [row[0] for row, _ in queue.items] == [f"loss/{step}" for step in range(500)]


def test_emitters_of_a_run_cannot_be_pickled_and_are_shared_by_copies_of_what_holds_them():
    emitter = Emitter(Queue()).scoped("val")
    with pytest.raises(TypeError, match=r"^a run belongs to the process that opened it and cannot be pickled"):
        pickle.dumps({"emitter": emitter})
    assert copy.deepcopy({"emitter": emitter})["emitter"] is emitter
