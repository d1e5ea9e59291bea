"""Files and pages: measured when they are named."""

import hashlib
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tracker_adapters.artifacts import (
    File,
    Page,
    PageEntry,
)
from tracker_adapters.errors import ArtifactError

UNDECODABLE = b"caf\xe9.txt".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("cls", [File, Page])
def test_a_file_is_measured_when_it_is_named(tmp_path, monkeypatch, cls):
    path = tmp_path / "data.bin"
    path.write_bytes(b"content")
    monkeypatch.chdir(tmp_path)
    artifact = cls(name="f", step=0, path=Path("data.bin"))
    path.write_bytes(b"changed since")
    assert (artifact.path, artifact.filename, artifact.size) == (path, "data.bin", 7)
    assert artifact.sha256 == hashlib.sha256(b"content").hexdigest()
    moved = replace(artifact, path=tmp_path / "gone")  # measured already: nothing is read
    assert (moved.path, moved.sha256, moved.filename) == (tmp_path / "gone", artifact.sha256, "data.bin")


def test_a_file_name_that_is_no_text_can_still_be_stored(tmp_path):
    path = tmp_path / UNDECODABLE
    path.write_bytes(b"")
    file = File(name="f", step=0, path=path, media_type="text/\udc80")
    assert file.filename == r"caf\udce9.txt"
    assert file.path == path
    msgspec.json.encode([file.filename, file.media_type])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "missing", r"cannot read .*missing: No such file or directory; expected a readable"),
        (lambda folder: folder, "is not a regular file"),
        (lambda folder: Path("/dev/null"), "/dev/null is not a regular file"),
        (lambda folder: None, "path is NoneType None; expected a path"),
        (lambda folder: 3, "path is int 3; expected a path"),
        (lambda folder: Path("a\0b"), "is impossible: embedded null byte"),
    ],
)
@pytest.mark.parametrize("cls", [File, Page])
def test_what_is_no_file_is_refused(tmp_path, cls, make, message):
    with pytest.raises(ArtifactError, match=f"^{cls.kind} 'f': .*{message}"):
        cls(name="f", step=0, path=make(tmp_path))


def test_a_pages_contents_are_entries(tmp_path):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(b"")
    entry = PageEntry(datapoint=np.int64(7), debugger="conv1", summary="\udc80")  # type: ignore[arg-type]
    assert (type(entry.datapoint), entry.summary) == (int, r"\udc80")
    assert Page(name="p", step=0, path=path, contents=[entry]).contents == (entry,)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match=r"^page 'p': contents hold 'conv1'; expected PageEntry"):
        Page(name="p", step=0, path=path, contents=("conv1",))  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"datapoint": 1.5}, {"debugger": None}, {"summary": 3}])
def test_an_entry_is_a_number_and_two_texts(change):
    with pytest.raises(ArtifactError, match="expected an int and two str"):
        PageEntry(**({"datapoint": 0, "debugger": "d", "summary": "s"} | change))


def test_a_known_checksum_is_not_computed_again(tmp_path):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(b"content")
    known = hashlib.sha256(b"known").hexdigest()
    page = Page(name="p", step=0, path=path, sha256=known)
    assert (page.size, page.sha256) == (7, known)
    with pytest.raises(ArtifactError, match="cannot read"):
        Page(name="p", step=0, path=tmp_path / "gone", sha256=known)
