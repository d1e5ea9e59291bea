"""Nothing is followed out of a folder: not by a link at any part of a path, not by a name."""

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tracker_adapters import safe_files
from tracker_adapters.errors import UnsafeFileError

WAYS = ["link/secret", "folder/link", "folder/dangling", "../outside/secret", "folder/../../outside/secret", "", "."]
CALLS: dict[str, Callable[[Path, str], object]] = {
    "open": lambda folder, name: safe_files.open_file(folder, name).close(),
    "append": lambda folder, name: safe_files.open_file(folder, name, "ab").close(),
    "write": lambda folder, name: safe_files.open_file(folder, name, "wb").close(),
    "update": lambda folder, name: safe_files.open_file(folder, name, "r+b").close(),
    "read": safe_files.read_file,
    "status": safe_files.status_of,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("precious")
    folder = tmp_path / "run"
    (folder / "folder").mkdir(parents=True)
    (folder / "folder/file").write_bytes(b"content")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "folder/link").symlink_to(tmp_path / "outside/secret")
    (folder / "folder/dangling").symlink_to(tmp_path / "outside/new")
    return folder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_call_leaves_the_folder(folder, call, way):
    with pytest.raises(UnsafeFileError):
        call(folder, way)
    outside = folder.parent / "outside"
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"secret": "precious"}


def test_an_absolute_path_is_refused(folder):
    with pytest.raises(UnsafeFileError, match="no path below"):
        safe_files.read_file(folder, "/etc/hostname")


def test_folders_are_not_made_and_files_not_moved_through_a_link(folder):
    with pytest.raises(UnsafeFileError, match="link"):
        safe_files.make_folders(folder, "link/new")
    with pytest.raises(UnsafeFileError, match="link"):
        safe_files.move_file(folder, "folder/file", "link/file")
    with pytest.raises(UnsafeFileError, match="link"):
        safe_files.remove_file(folder, "link/secret", missing_ok=True)
    assert [path.name for path in (folder.parent / "outside").iterdir()] == ["secret"]


def test_removing_a_link_leaves_what_it_stands_for(folder):
    safe_files.remove_file(folder, "folder/link")
    assert (folder.parent / "outside/secret").exists()


def test_walks_pass_over_links(folder):
    found = [(str(path), status.st_size) for path, status in safe_files.files_below(folder, "folder")]
    assert found == [("folder/file", 7)]
    assert [*safe_files.files_below(folder, "link")] == []
    assert safe_files.names_in(folder, "link") == []


def test_an_open_folder_follows_no_link_of_its_names(folder):
    (folder / "folder/below").mkdir()
    (folder / "folder/linked").symlink_to(folder / "folder/below")
    with safe_files.folder_of(folder, "./folder//") as found:
        assert sorted(found.names()) == ["below", "dangling", "file", "link", "linked"]
        assert [name for name in sorted(found.names()) if found.has_folder(name)] == ["below"]
        assert found.place("file").present(["", "-wal"]) == [""]
        os.close(found.place("file").opened())
        for name in ("link", "linked", "dangling", "below"):
            with pytest.raises(UnsafeFileError, match=f"{folder}.*/{name} is not a regular file"):
                found.place(name).opened()
    for way in ("link", "folder/linked", "folder/file", "..", "folder/../folder"):
        with pytest.raises(UnsafeFileError), safe_files.folder_of(folder, way):
            pass
    with pytest.raises(FileNotFoundError), safe_files.folder_of(folder, "folder/missing"):
        pass


def test_a_pipe_blocks_nobody(folder):
    os.mkfifo(folder / "pipe")
    for call in CALLS.values():
        raised: list[BaseException] = []

        def attempt(call: Callable[[Path, str], object] = call, raised: list[BaseException] = raised) -> None:
            try:
                call(folder, "pipe")
            except UnsafeFileError as error:
                raised.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert len(raised) == 1


def test_a_device_is_refused_and_a_file_too_large_is_not_read(folder):
    with pytest.raises(UnsafeFileError, match="not a regular file"):
        safe_files.read_file(Path("/dev"), "null")
    with pytest.raises(UnsafeFileError, match="larger than 6 bytes"):
        safe_files.read_file(folder, "folder/file", max_bytes=6)
    assert safe_files.read_file(folder, "folder/file", max_bytes=7) == b"content"


def test_the_folder_itself_may_be_a_link(folder):
    named = folder.parent / "named"
    named.symlink_to(folder)
    assert safe_files.read_file(named, "folder/file") == b"content"


def test_what_is_missing_is_told_by_its_path(folder):
    with pytest.raises(FileNotFoundError, match="run/folder/none"):
        safe_files.read_file(folder, "folder/none")
    with pytest.raises(FileNotFoundError, match="run/none"):
        safe_files.read_file(folder, "none/file")
    assert safe_files.status_of(folder, "none/file") is None


def test_ways_for_those_who_open_by_name_are_checked(folder):
    for path in (folder / "link/secret", folder / "link", folder / "folder/link"):
        with pytest.raises(UnsafeFileError):
            safe_files.check_way(folder, path)
    for path in (folder / "folder/file", folder / "new/file", folder, folder.parent / "outside"):
        safe_files.check_way(folder, path)


def test_linking_takes_the_file_that_a_link_stands_for(folder):
    safe_files.link_file(folder / "folder/link", folder, "folder/kept")
    assert safe_files.read_file(folder, "folder/kept") == b"precious"


def test_no_descriptor_stays_open(folder):
    before = len([*Path("/dev/fd").iterdir()])
    for call in CALLS.values():
        for way in [*WAYS, "folder/file", "folder/none", "none/none"]:
            with suppress(OSError):
                call(folder, way)
    assert len([*Path("/dev/fd").iterdir()]) == before


@pytest.mark.parametrize(("mode", "expected"), [("ab", b"old lines, new"), ("r+b", b", newines"), ("wb", b", new")])
def test_what_is_written_to_a_hard_link_changes_no_other_name_of_the_file(tmp_path, mode, expected):
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_bytes(b"old lines")
    elsewhere.chmod(0o600)
    folder = tmp_path / "run" / "local"
    folder.mkdir(parents=True)
    (folder / "scalars.csv").hardlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with safe_files.open_file(tmp_path / "run", "local/scalars.csv", mode) as stream:
        stream.write(b", new")
    assert elsewhere.read_bytes() == before
    assert (folder / "scalars.csv").read_bytes() == expected
    assert stat.S_IMODE((folder / "scalars.csv").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["scalars.csv"]
