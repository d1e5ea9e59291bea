"""Files beside the store: what lies under a checksum has that checksum, and failures leave nothing behind."""

import hashlib
import os
from pathlib import Path

from tracker_adapters.artifacts import File, Page
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.writing.run_store import RunStore


def blobs(run_folder):
    return [path for path in (run_folder / "blobs").rglob("*") if path.is_file()]


def test_a_file_that_changes_while_it_is_taken_lies_under_its_new_checksum(run_folder, tmp_path):
    source = tmp_path / "notes.txt"
    source.write_bytes(b"before")
    file = File(name="notes", path=source, step=0)
    source.write_bytes(b"changed since")
    store = RunStore(run_folder)
    adopted = store.adopt(file)
    assert adopted is not None
    store.put(adopted, 10)
    store.close()
    (stored,) = RunRecord(run_folder).files()
    assert stored.path.read_bytes() == b"changed since"
    assert (stored.sha256, stored.size) == (hashlib.sha256(b"changed since").hexdigest(), 13)
    assert blobs(run_folder) == [stored.path]


def test_a_page_is_linked_and_the_same_content_lies_there_once(run_folder, tmp_path):
    store = RunStore(run_folder)
    for name in ("page_0.pkl", "page_1.pkl"):
        (tmp_path / name).write_bytes(b"page")
        page = store.adopt(Page(name=name, path=tmp_path / name, step=0))
        assert page is not None
        assert page.path.read_bytes() == b"page"
    store.close()
    assert len(blobs(run_folder)) == 1
    assert blobs(run_folder)[0].samefile(tmp_path / "page_0.pkl")


def test_a_file_that_cannot_be_copied_is_counted_and_leaves_nothing(run_folder, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_bytes(b"text")
    file = File(name="notes", path=tmp_path / "notes.txt", step=0)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(Path, "replace", full)
    store = RunStore(run_folder)
    assert store.adopt(file) is None
    store.close()
    assert store.counts().lost == {"file_not_copied": 1}
    assert blobs(run_folder) == []
