"""A folder that is held is told from another at its path."""

import gc
from pathlib import Path

import pytest
from tracker_adapters.store.held_folder import HeldFolder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def states(held):
    return held.is_in_place, held.is_replaced


def test_it_may_be_moved_away_and_come_back(folder):
    held = HeldFolder(folder)
    assert states(held) == (True, False)
    away = folder.rename(folder.parent / "away")
    assert states(held) == (False, False)
    away.rename(folder)
    assert states(held) == (True, False)


@pytest.mark.parametrize("goes", ["moved", "deleted"])
def test_another_may_take_its_place(folder, goes):
    held = HeldFolder(folder)
    folder.rename(folder.parent / "away") if goes == "moved" else folder.rmdir()
    folder.mkdir()
    assert states(held) == (False, True)


def test_it_lets_go_when_it_is_closed_or_forgotten(folder):
    before = len(list(Path("/dev/fd").iterdir()))
    closed, forgotten = HeldFolder(folder), HeldFolder(folder)
    closed.close()
    closed.close()
    assert states(closed) == (False, False)
    del forgotten
    gc.collect()
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_what_is_no_folder_is_refused(folder):
    (folder / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(OSError, match=name):
            HeldFolder(folder / name)
