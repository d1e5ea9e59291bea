"""Copies what is sealed in a local copy to the run's place, and lists it there with its checksum."""

import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tracker_adapters.artifacts import sha256_of
from tracker_adapters.errors import RunError
from tracker_adapters.remote.claim import release
from tracker_adapters.remote.leftovers import Leftovers
from tracker_adapters.remote.local_copy import Home, write_private
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.sealed import INDEX, SealedFile, SealedIndex, Writer, is_copied, read_head, read_index
from tracker_adapters.safe_files import files_below, read_file, remove_file
from tracker_adapters.store.connections import snapshot
from tracker_adapters.store.layout import (
    BLOBS,
    DELIVERY_DATABASE,
    MANIFEST,
    PRIVATE,
    STORE,
    WRITER_LOCK,
    below_run,
    rank_folder,
    ranks,
    segments,
)
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.store.lock import is_locked

HEARTBEAT_S = 30.0
DELIVERY_START_S = 20.0
INDEX_INTERVAL_S = 5.0
"""How often the index is written while many files are copied: what is not listed is copied again after a crash."""
COPIED_INTERVAL_S = 60.0
"""How often what was copied is noted here: after a crash, the rest is compared by its checksum."""
SLOWEST_BYTES_PER_S = 50_000
_COPIED = "copied.json"
_SQLITE_MAGIC = b"SQLite format 3\0"


class TakenOverError(RunError):
    """Another machine has taken the run over; this one must not write to its place any more."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A local file as it was when it was copied, which tells without reading it whether it has changed."""

    size: int
    mtime_ns: int
    sha256: str


class Mirror:
    """Copies one run; ``copy`` does what can be done now. One process at a time does so for a folder."""

    def __init__(
        self, folder: Path, place: RemotePlace, home: Home, *, progressed: Callable[[], None] = lambda: None
    ) -> None:
        """Reads what was copied before; ``progressed`` is called after each file, and each piece of a large one."""
        self.allowance_s = 0.0
        """Seconds that the file that is being copied may take on a slow line."""
        self._folder = folder
        self._place = place
        self._home = home
        self._progressed = progressed
        self._index: SealedIndex | None = None
        self._written_at = self._noted_at = 0.0
        self._leftovers = Leftovers(folder)
        self._present: set[str] = set()
        self._ended_at = 0.0
        self._unsettled = False
        try:
            found = json.loads(read_file(folder, f"{PRIVATE}/{_COPIED}"))
            self._copied = {path: Copied(*entry) for path, entry in found.items()}
        except (
            OSError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
        ):  # then everything is compared by its checksum
            self._copied = {}

    def copy(self) -> bool:
        """Copies what is sealed and not there yet; everything, once the run has ended and its sinks are done.

        Returns:
            Whether everything is there for good.

        Raises:
            TakenOverError: When another machine writes the run now.
            Exception: What the file system raises; what was copied before stays, and calling it again continues.
        """
        ended = run_has_ended(self._folder)  # asked first: what is written afterwards is found by the next call
        self._ended_at = (self._ended_at or time.monotonic()) if ended else 0.0
        done = ended and not self._is_delivered_to()
        index = self._index = self._index or self._claimed()
        self._unsettled = False
        changed = self._copy_manifest(index)
        for relative, path in self._ready(index, ended=ended, done=done):
            changed |= self._copy_file(index, relative, path)
            self._progressed()
            if changed and time.monotonic() - self._written_at > INDEX_INTERVAL_S:
                self._write_index(index)
                changed = False
        changed |= self._forget_removed(index)
        done = done and not self._unsettled
        if done:
            changed |= index.writer is not None
            index.writer = None
        if changed or self._leftovers.pending or (not done and time.monotonic() - self._written_at > HEARTBEAT_S):
            self._write_index(index)
        return done

    def _claimed(self) -> SealedIndex:
        index = read_index(self._place)
        if index is None:
            if self._home.claimed:
                raise RunError(f"{self._place.url} holds no {INDEX} any more")
            index = SealedIndex(manifest={})
        self._check_ours(index)
        if not self._home.claimed:
            index.last_writer = self._home.writer
            index.writer = Writer.here(self._home.writer)
            index.write(self._place, self._leftovers.note)
            release(self._place)
            self._home = replace(self._home, claimed=True)
            self._home.save(self._folder)
        return index

    def _check_ours(self, index: SealedIndex) -> None:
        if not self._home.is_newest(index.last_writer):
            host = index.writer.host if index.writer else "another opening"
            raise TakenOverError(
                f"{host} has taken over the run at {self._place.url}; what is not copied stays in {self._folder}"
            )

    def _is_delivered_to(self) -> bool:
        found = (path for path, _ in files_below(self._folder, STORE) if path.suffix == ".lock")
        if any(is_locked(self._folder / path) for path in found if path.parent.name != STORE):
            return True
        # A delivery process that has not started yet has no lock; one that never does is not waited for.
        return time.monotonic() - self._ended_at < DELIVERY_START_S and self._awaits_delivery()

    def _awaits_delivery(self) -> bool:
        folder = rank_folder(self._folder, 0)
        if not (folder / DELIVERY_DATABASE).exists():
            return False
        with Ledger(folder) as ledger:
            return any(position.state == "waiting" for position in ledger.positions().values())

    def _ready(self, index: SealedIndex, *, ended: bool, done: bool) -> Iterator[tuple[str, Path]]:
        live = set()
        if not ended:
            live = {found[-1] for rank in ranks(self._folder) if (found := segments(rank_folder(self._folder, rank)))}
        self._present.clear()
        for folder, subfolders, names in os.walk(self._folder):
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            inside = Path(folder).relative_to(self._folder).as_posix()
            prefix = "" if inside == "." else f"{inside}/"
            is_blobs = prefix.startswith(f"{BLOBS}/")
            for name in sorted(names):
                relative = f"{prefix}{name}"
                self._present.add(relative)
                if is_blobs and relative in self._copied and relative in index.files:
                    continue  # named by its content; there are many
                path = Path(folder, name)
                if not is_copied(relative):
                    continue
                if not stat.S_ISREG(path.lstat().st_mode):  # never follow a link out of the run, nor wait for a pipe
                    continue
                if done or (path not in live and _is_sealed(relative)):
                    yield relative, path

    def _copy_manifest(self, index: SealedIndex) -> bool:
        content = read_file(self._folder, MANIFEST)
        manifest = json.loads(content)
        if manifest == index.manifest:
            return False
        index.manifest = manifest
        self._place.write(MANIFEST, content)  # for people; readers take what the index says
        return True

    def _copy_file(self, index: SealedIndex, relative: str, path: Path) -> bool:
        """Returns whether the index changed."""
        try:
            seen = _stamp(path)
            known = self._copied.get(relative)
            if known and seen == (known.size, known.mtime_ns) and relative in index.files:
                return False
            with self._whole(path) as source:
                sha256, size = sha256_of(source), source.stat().st_size
                old = index.files.get(relative)
                if old is None or old.sha256 != sha256:
                    key = relative
                    if old is not None and not self._place.replaces_in_place:
                        # Until the index says otherwise, the old object is what it lists.
                        key = f"{relative}~{sha256[:12]}"
                        self._leftovers.note(old.key)
                    self._leftovers.note(key)
                    self.allowance_s = size / SLOWEST_BYTES_PER_S
                    self._place.upload(source, key, self._progressed)
                    self.allowance_s = 0.0
            now = _stamp(path)
        except FileNotFoundError:
            if path.exists():  # it was the place's own error
                raise
            self._unsettled = True  # compacted meanwhile
            return False
        if now != seen:  # it was still being written, or its log has just been folded into it
            self._unsettled = True
            return False
        self._copied[relative] = Copied(*seen, sha256)
        if old is not None and old.sha256 == sha256:
            return False
        index.files[relative] = SealedFile(size, sha256, key)
        return True

    @contextlib.contextmanager
    def _whole(self, path: Path) -> Iterator[Path]:
        """A file that can be copied as it is: of a database with a log beside it, a snapshot."""
        if path.suffix != ".db" or not _has_log(path):
            yield path
            return
        copy = self._folder / PRIVATE / "snapshot.db"
        remove_file(*below_run(copy), missing_ok=True)
        try:
            snapshot(path, copy)
            yield copy
        finally:
            remove_file(*below_run(copy), missing_ok=True)

    def _forget_removed(self, index: SealedIndex) -> bool:
        """Leaves out what compaction removed here after it was copied."""
        missed = self._copied.keys() - self._present
        removed = [path for path in missed if not (self._folder / path).exists()]
        for path in removed:
            del self._copied[path]
            if path in index.files:
                self._leftovers.note(index.files.pop(path).key)
        return bool(removed)

    def _write_index(self, index: SealedIndex) -> None:
        current = read_head(self._place)
        if current is not None:
            self._check_ours(current)
        index.last_writer = self._home.writer
        if index.writer is not None:
            index.writer = Writer.here(self._home.writer)
        index.write(self._place, self._leftovers.note)
        self._written_at = time.monotonic()
        self._leftovers.remove(self._place, index.keys())
        if index.writer is None or self._written_at - self._noted_at > COPIED_INTERVAL_S:
            self._noted_at = self._written_at
            entries = {path: [one.size, one.mtime_ns, one.sha256] for path, one in self._copied.items()}
            write_private(self._folder, _COPIED, json.dumps(entries))


def run_has_ended(folder: Path) -> bool:
    """Whether no process writes to the run in a folder any more."""
    return not any(is_locked(rank_folder(folder, rank) / WRITER_LOCK) for rank in ranks(folder))


def _is_sealed(relative: str) -> bool:
    """Whether a file never changes once it has its name: blobs, segments that are not written, and pages."""
    top, _, rest = relative.partition("/")
    name = relative.rpartition("/")[2]
    if top == BLOBS:
        return True
    if top == STORE:
        return name.startswith("segment_") and name.endswith(".db") and bool(rest)
    return name.startswith("page_") and name.endswith(".pkl")


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of change of a file, with its log's where it is a database."""
    status = path.stat()
    log = Path(f"{path}-wal")
    beside = log.stat() if path.suffix == ".db" and log.exists() else None
    if beside is None:
        return status.st_size, status.st_mtime_ns
    return status.st_size + beside.st_size, max(status.st_mtime_ns, beside.st_mtime_ns)


def _has_log(path: Path) -> bool:
    with path.open("rb") as stream:
        header = stream.read(20)
    log = Path(f"{path}-wal")
    return (header[:16] == _SQLITE_MAGIC and header[18:20] == b"\2\2") or (log.exists() and log.stat().st_size > 0)
