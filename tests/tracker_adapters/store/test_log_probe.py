"""Whether SQLite can keep a write-ahead log in a folder is tried there, and leaves nothing."""

import pytest
from tracker_adapters.store.log_probe import why_no_log


def test_the_reason_is_sqlites_own_and_empty_where_a_log_can_be_kept(tmp_path):
    assert why_no_log(tmp_path) == ""
    assert why_no_log(tmp_path, vfs="unix-dotfile") == "SQLite chose the journal mode delete"
    assert why_no_log(tmp_path, vfs="no-such-vfs") == "no such vfs: no-such-vfs"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_says_nothing_about_a_log(tmp_path):
    with pytest.raises(FileNotFoundError):
        why_no_log(tmp_path / "missing")
