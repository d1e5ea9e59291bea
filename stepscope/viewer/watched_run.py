"""One run that is looked at: its key, and what its manifest says now."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracker_adapters.errors import NotARunError
from tracker_adapters.remote.place import RemotePlace, is_url
from tracker_adapters.store import layout
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.reading.file_damage import SOUND, Damage, damage_of

from stepscope.runs.folders import readable

if TYPE_CHECKING:
    from tracker_adapters.remote.sealed import SealedIndex
    from tracker_adapters.store.manifest import Manifest

KEY_LENGTH = 10
AT_REST_NS = 2_000_000_000
"""How long ago a file must have been written for its times to tell it from a later one: some count seconds only."""
REMOTE_LOOK_S = 5.0
"""How long what was read of a run at a URL is taken for new; its writer copies every few seconds."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a run without reading its store; a run whose process died is ``failed``."""

    manifest: Manifest
    live: bool
    ranks: tuple[int, ...]
    damage: Damage = SOUND


class WatchedRun:
    """A run in a folder or at a URL; ``key`` names it in addresses, today and tomorrow."""

    def __init__(self, place: str | Path) -> None:
        self.place = place
        text = str(place).rstrip("/") if is_url(place) else os.path.realpath(place)
        self.key = hashlib.sha256(os.fsencode(text)).hexdigest()[:KEY_LENGTH]
        self.shown = readable(place)
        self._stamp: object = None
        self._manifest: Manifest | None = None
        self._index: SealedIndex | None = None
        self.copied = 0
        """How often something new was found at the URL, as of the last ``head``."""
        self._looked_s = -REMOTE_LOOK_S

    @property
    def folder(self) -> Path | None:
        """The folder on this machine; None for a run at a URL."""
        return None if is_url(self.place) else Path(self.place)

    def head(self) -> Head:
        """Returns what the manifest says now.

        Raises:
            RunError: When there is no run, it is damaged, of a newer version, or its place cannot be reached.
            OSError: When it cannot be read.
        """
        folder = self.folder
        if folder is None:
            return self._remote_head()
        ranks = self.ranks()
        manifest = self._local_manifest(folder)
        if manifest.info.status != "running":
            return Head(manifest, False, ranks, damage_of(folder, ranks))
        live = any(is_locked(layout.rank_folder(folder, rank) / layout.WRITER_LOCK) for rank in ranks)
        if live:
            return Head(manifest, True, ranks)
        return Head(manifest.with_status("failed"), False, ranks, damage_of(folder, ranks))

    def ranks(self) -> tuple[int, ...]:
        """Returns the ranks that there are now; raises as ``head``, of which this is the quick part on this machine."""
        return self._remote_head().ranks if self.folder is None else tuple(layout.ranks(self.folder))

    def files_at_rest(self, head: Head) -> object:
        """Returns a value that stays the same while nothing changes the store of a run that ended.

        None of a run that lives or is at a URL, and where a file was written so recently that another change may have
        the same time.
        """
        if head.live or self.folder is None:
            return None
        found, newest_ns = [], 0
        for segment in (path for rank in head.ranks for path in layout.segments(layout.rank_folder(self.folder, rank))):
            for name in (segment, f"{segment}-wal"):
                with suppress(FileNotFoundError):
                    status = os.lstat(name)
                    found.append((str(name), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
                    newest_ns = max(newest_ns, status.st_mtime_ns)
        return None if time.time_ns() - newest_ns < AT_REST_NS else tuple(found)

    def _local_manifest(self, folder: Path) -> Manifest:
        """The manifest, read again when it was replaced."""
        try:
            status = os.lstat(folder / layout.MANIFEST)
            stamp: object = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_dev)
        except OSError:
            stamp = None
        if self._manifest is None or stamp is None or stamp != self._stamp:
            from tracker_adapters.store.manifest import load_manifest

            self._manifest = load_manifest(folder)
            self._stamp = stamp
        return self._manifest

    def _remote_head(self) -> Head:
        from tracker_adapters.remote.sealed import find_index
        from tracker_adapters.store.manifest import manifest_of

        if self._index is None or time.monotonic() - self._looked_s > REMOTE_LOOK_S:
            index = find_index(RemotePlace(str(self.place)))
            if index is None:
                raise NotARunError(f"{self.place} holds no stepscope run")
            if self._index is None or (index.files, index.manifest) != (self._index.files, self._index.manifest):
                self.copied += 1
            self._index, self._looked_s = index, time.monotonic()
        index = self._index
        live = index.writer is not None and index.writer.is_seen()
        manifest = manifest_of(index.manifest, str(self.place))
        if manifest.info.status == "running" and not live:
            manifest = manifest.with_status("failed")
        ranks = {path.split("/")[1] for path in index.files if path.startswith("store/rank_")}
        return Head(manifest, live, tuple(sorted(int(name.removeprefix("rank_")) for name in ranks)))
