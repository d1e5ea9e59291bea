"""Tells whether a run store can live in a folder: SQLite's write-ahead log needs shared memory, which networks lack."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tracker_adapters.errors import RunError
from tracker_adapters.store.log_probe import why_no_log

LOCAL_FILE_SYSTEMS = frozenset(
    ("apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
)
VARIABLE = "STEPSCOPE_LOCAL_STORE"
NETWORK_FILE_SYSTEMS = (
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.cephfs", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "ocfs2",
    "orangefs", "panfs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "virtiofs", "vboxsf", "wekafs",
)  # fmt: skip
"""As the kernel names them in /proc/mounts; ``nfs`` stands for its versions too."""


def why_not_here(folder: Path) -> str:
    """Returns why a folder's store must lie on a local disk; empty when it can lie there.

    ``STEPSCOPE_LOCAL_STORE`` decides where it is ``always`` or ``never``; else the type of the file system does, and
    whether SQLite can keep a write-ahead log there.

    Raises:
        RunError: For another value of the variable.
    """
    wish = os.environ.get(VARIABLE, "auto")
    if wish not in ("always", "never", "auto"):
        raise RunError(f"the environment variable {VARIABLE} is {wish!r}; expected always, never or auto")
    if wish != "auto":
        return f"{VARIABLE} says so" if wish == "always" else ""
    import psutil  # whoever only reads runs waits for it in vain

    existing = next(path for path in (folder, *folder.parents) if path.exists())
    kind = file_system(existing, psutil.disk_partitions(all=True))
    if is_network(kind):
        return f"{kind} is a network file system"
    if kind in LOCAL_FILE_SYSTEMS:
        return ""
    return "" if keeps_a_log(existing) else "SQLite can keep no write-ahead log there"


def file_system(folder: Path, mounts: Iterable[Any]) -> str:
    """Returns the type of the file system that holds a folder, empty when no mount does.

    Args:
        folder: It exists.
        mounts: With ``mountpoint`` and ``fstype`` each, as psutil has them; of two at one place the later one is seen.
    """
    place = folder.resolve()
    best, kind = -1, ""
    for mount in mounts:
        point = Path(mount.mountpoint)
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), mount.fstype
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system of this type is shared over a network."""
    kind = kind.lower()
    return kind in NETWORK_FILE_SYSTEMS or (kind.startswith("nfs") and kind[3:].isdigit())


def keeps_a_log(folder: Path, *, vfs: str | None = None) -> bool:
    """Whether SQLite can keep a write-ahead log in a folder, which is tried there.

    A folder that cannot be written says nothing about that: True. ``vfs`` is that of ``why_no_log``.
    """
    try:
        return not why_no_log(folder, vfs=vfs)
    except OSError:
        return True
