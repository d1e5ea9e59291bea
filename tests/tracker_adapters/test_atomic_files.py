"""A file has its name when it is complete, and what it stands for on the disk, and not before."""

import errno
import os
import threading
from pathlib import PurePath

import pytest
from tracker_adapters.atomic_files import atomic_file, finished_name, unfinished_folder, write_atomically
from tracker_adapters.errors import UnsafeFileError
from waiting import in_threads

Synced = list[tuple[int | str, list[str]]]


def seen_names(folder):
    """The names in a folder, of unfinished files with what they are to be."""
    return [f"unfinished {name}" if (name := finished_name(path.name)) else path.name for path in folder.iterdir()]


@pytest.fixture
def synced(monkeypatch, tmp_path):
    """What was synced, in this order: its size, or "folder", with the names that the folder showed then."""
    seen: Synced = []
    sync = os.fsync

    def fsync(descriptor):
        folder = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        seen.append(("folder" if folder else os.fstat(descriptor).st_size, seen_names(tmp_path)))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_it_ends(tmp_path, synced):
    with atomic_file(tmp_path, "a", sync="name") as file:
        file.write(b"content")
    assert synced == [(7, ["unfinished a"]), ("folder", ["a"])]


def test_nobody_waits_for_the_folder_where_the_old_file_may_come_back(tmp_path, synced):
    write_atomically(tmp_path, "a", b"content", sync="content")
    assert synced == [(7, ["unfinished a"])]


def test_a_file_that_need_not_survive_a_power_cut_waits_for_nothing(tmp_path, synced):
    write_atomically(tmp_path, "a", b"content", sync="nothing")
    assert (synced, (tmp_path / "a").read_bytes()) == ([], b"content")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_what_was_there(tmp_path, error):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error), atomic_file(tmp_path, "a", sync="name") as file:
        file.write(b"new")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_what_cannot_be_synced_leaves_what_was_there(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "no space left on device")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(tmp_path, "a", b"new", sync="content")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_permissions_stay_those_of_the_file_that_is_replaced(tmp_path):
    write_atomically(tmp_path, "a", b"old", sync="nothing")
    (tmp_path / "a").chmod(0o600)
    write_atomically(tmp_path, "a", b"new", sync="nothing")
    assert ((tmp_path / "a").stat().st_mode & 0o777, (tmp_path / "a").read_bytes()) == (0o600, b"new")


def test_neither_a_link_nor_a_file_with_another_name_is_written_through(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    os.link(outside, folder / "shared")
    for name in ("link", "shared"):
        write_atomically(folder, name, b"ours", sync="nothing")
        assert (folder / name).read_bytes() == b"ours"
        assert not (folder / name).is_symlink()
    assert outside.read_bytes() == b"theirs"


def test_no_path_leads_out_of_the_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    for path in ("../a", "link/a"):
        with pytest.raises(UnsafeFileError):
            write_atomically(tmp_path / "folder", path, b"x", sync="nothing")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("has_links", [True, False])
def test_one_that_does_not_replace_leaves_what_came_first(tmp_path, monkeypatch, has_links):
    def refuse(*args, **kwargs):
        raise OSError(errno.EPERM, "this file system has no hard links")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    write_atomically(tmp_path, "a", b"first", sync="content", replaces=False)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path, "a", b"second", sync="content", replaces=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"first"
    assert (tmp_path / "a").stat().st_nlink == 1


def test_of_several_writers_at_once_each_writes_a_whole_file(tmp_path):
    contents = [bytes([number]) * 500_000 for number in range(4)]
    ready = threading.Barrier(len(contents))

    def write(content):
        ready.wait(60)
        for _ in range(20):
            write_atomically(tmp_path, "a", content, sync="nothing")

    in_threads(write, contents)
    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_was_not_renamed_goes(tmp_path):
    with pytest.raises(ValueError, match="broken"), unfinished_folder(tmp_path / "out") as folder:
        (folder / "half").write_bytes(b"x")
        assert finished_name(folder.name) == "out"
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "page_1.pkl", ".hidden", "part", "a.part", ".part"])
def test_a_finished_name_is_taken_for_one(name):
    assert finished_name(name) is None
    assert finished_name(PurePath(f".{name}.0123abcd.part").name) == name
