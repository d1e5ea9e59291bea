"""Where a run store cannot live: network file systems, and where SQLite keeps no write-ahead log."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tracker_adapters.errors import RunError
from tracker_adapters.remote.file_systems import file_system, is_network, keeps_a_log, why_not_here


@pytest.fixture(autouse=True)
def automatic(monkeypatch):
    monkeypatch.delenv("STEPSCOPE_LOCAL_STORE", raising=False)


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "fuse.sshfs", "9p", "CEPH"]
)
def test_network_file_systems_are_known(kind):
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "nfsd", "fuse.fuse-overlayfs", ""])
def test_local_ones_are_not_taken_for_them(kind):
    assert not is_network(kind)


def test_the_innermost_and_latest_mount_counts(tmp_path):
    mounts = [("/", "ext4"), (str(tmp_path), "nfs4"), (str(tmp_path / "in"), "xfs"), (str(tmp_path / "in"), "lustre")]
    listed = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in mounts]
    (tmp_path / "in" / "runs").mkdir(parents=True)
    (tmp_path / "inner").mkdir()
    assert file_system(tmp_path / "in" / "runs", listed) == "lustre"
    assert file_system(tmp_path / "inner", listed) == "nfs4"
    assert file_system(Path("/"), listed) == "ext4"
    assert file_system(tmp_path, []) == ""


def test_a_log_is_tried_for_real(tmp_path):
    """SQLite's VFS with lock files has no shared memory, as a network file system has none: it refuses WAL."""
    assert keeps_a_log(tmp_path)
    assert not keeps_a_log(tmp_path, vfs="unix-dotfile")
    assert list(tmp_path.iterdir()) == []


def test_where_no_log_can_be_kept_the_store_lies_elsewhere(tmp_path, monkeypatch):
    from functools import partial

    from tracker_adapters.remote import file_systems

    assert why_not_here(tmp_path / "runs" / "exp1") == ""
    monkeypatch.setattr(file_systems, "file_system", lambda *_: "strangefs")
    assert why_not_here(tmp_path / "runs" / "exp1") == ""
    monkeypatch.setattr(file_systems, "keeps_a_log", partial(keeps_a_log, vfs="unix-dotfile"))
    assert why_not_here(tmp_path / "runs" / "exp1") == "SQLite can keep no write-ahead log there"
    monkeypatch.setattr(file_systems, "file_system", lambda *_: "nfs4")
    assert why_not_here(tmp_path / "runs" / "exp1") == "nfs4 is a network file system"


def test_the_variable_forces_and_forbids(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_LOCAL_STORE", "always")
    assert why_not_here(tmp_path) == "STEPSCOPE_LOCAL_STORE says so"
    monkeypatch.setenv("STEPSCOPE_LOCAL_STORE", "never")
    assert why_not_here(tmp_path) == ""
    monkeypatch.setenv("STEPSCOPE_LOCAL_STORE", "1")
    with pytest.raises(RunError, match="STEPSCOPE_LOCAL_STORE is '1'; expected always, never or auto"):
        why_not_here(tmp_path)
