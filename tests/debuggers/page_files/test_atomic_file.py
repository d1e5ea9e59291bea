"""A file has its name when it is complete and on the disk, and not before."""

import os

import pytest

from debuggers.page_files.atomic_file import atomic_file


@pytest.fixture
def synced(monkeypatch, tmp_path):
    """What was synced, in this order: its size, or "folder", with the names that the folder showed then."""
    seen = []
    sync = os.fsync

    def fsync(descriptor):
        folder = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        seen.append(("folder" if folder else os.fstat(descriptor).st_size, [path.name for path in tmp_path.iterdir()]))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_it_ends(tmp_path, synced):
    with atomic_file(tmp_path / "a") as file:
        file.write(b"content")
    assert synced == [(7, [".a.part"]), ("folder", ["a"])]


def test_a_file_that_need_not_survive_a_power_cut_waits_for_nothing(tmp_path, synced):
    with atomic_file(tmp_path / "a", durable=False) as file:
        file.write(b"content")
    assert (synced, (tmp_path / "a").read_bytes()) == ([], b"content")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_what_was_there(tmp_path, error):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error), atomic_file(tmp_path / "a") as file:
        file.write(b"new")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"
