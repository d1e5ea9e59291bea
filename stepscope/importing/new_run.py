"""Writes an imported run under a temporary name, so that an interrupted import leaves no run."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import Artifact, File, Page, RunInfo
from tracker_adapters.atomic_files import unfinished_folder
from tracker_adapters.errors import RunError, RunExistsError
from tracker_adapters.recording import ScalarRow
from tracker_adapters.store.blobs import adopt_file, store_bytes
from tracker_adapters.store.layout import blob_path
from tracker_adapters.store.manifest import Manifest, new_run_id
from tracker_adapters.store.writing.run_store import RunStore

_FLUSH_BYTES = 8 * 1024 * 1024
_SCALAR_BYTES = 200


class NewRun:
    """A run that is being filled; artifacts carry their own times."""

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.config: dict[str, Any] = {}
        self._folder = folder
        self._store = RunStore(folder)
        self._unflushed = 0
        self._times: tuple[int, int] | None = None

    def put_scalar(self, row: ScalarRow) -> None:
        """Adds a scalar, whose parts were checked."""
        self._put(row, "scalar", row[2], _SCALAR_BYTES)

    def put(self, artifact: Artifact, nbytes: int) -> None:
        """Adds an artifact that takes about so many bytes."""
        self._put(artifact, artifact.kind, artifact.time_ns, nbytes + _SCALAR_BYTES)

    def put_content(self, content: bytes, *, filename: str, media_type: str, **common: Any) -> None:
        """Adds a file of this content; ``common``: name, step and time_ns."""
        sha256 = store_bytes(self._folder, content)
        path = blob_path(self._folder, sha256)
        file = File(path=path, filename=filename, size=len(content), sha256=sha256, media_type=media_type, **common)
        self.put(file, 0)

    def put_page(self, source: Path, sha256: str, **fields: Any) -> None:
        """Adds a copy of a page; the source is not even linked to."""
        sha256 = adopt_file(self._folder, source, sha256, link=False)
        path = blob_path(self._folder, sha256)
        page = Page(path=path, filename=source.name, size=path.stat().st_size, sha256=sha256, **fields)
        self.put(page, 128 * len(page.contents))

    def begin_attempt(self) -> None:
        """Has what follows replace what lies at the same steps, as after a resume."""
        self._close_store()
        self._store = RunStore(self._folder, resume=True)

    def finish(self, name: str) -> None:
        """Stores everything, and writes who the run is.

        Raises:
            RunError: When something could not be stored.
        """
        self._close_store()
        first, last = self._times or (0, 0)
        info = RunInfo(
            id=new_run_id(), name=name, config=self.config, tags=("imported",), status="finished", created_ns=first
        )
        Manifest(info, ended_ns=last).save(self._folder)

    def abandon(self) -> None:
        """Lets go of the files."""
        self._store.close(timeout=None)

    def _put(self, item: Artifact | ScalarRow, kind: str, time_ns: int, nbytes: int) -> None:
        self._store.put(item, nbytes)
        self.counts[kind] += 1
        first, last = self._times or (time_ns, time_ns)
        self._times = (min(first, time_ns), max(last, time_ns))
        self._unflushed += nbytes
        # A store that takes a training's artifacts drops what its queue cannot hold; an import can wait.
        if self._unflushed > _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._unflushed = 0
        self._store.flush()
        if lost := self._store.counts().lost:
            raise RunError(f"cannot store everything in {self._folder}: {lost} ({self._store.error})")

    def _close_store(self) -> None:
        self._flush()
        self._store.close(timeout=None)


@contextmanager
def new_run(target: Path, name: str) -> Iterator[NewRun]:
    """Yields a run to fill, which lies at ``target`` at the end of the block; after an exception nothing does.

    Raises:
        RunExistsError: When something is there.
        RunError: When it cannot be written.
    """
    check_free(target)
    try:
        with unfinished_folder(target) as temporary:
            run = NewRun(temporary)
            try:
                yield run
                run.finish(name)
                check_free(target)
                temporary.rename(target)
            finally:
                run.abandon()
    except OSError as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"cannot write the run {target}: {error.strerror or error}") from error


def check_free(target: Path) -> None:
    """Raises RunExistsError when something lies at ``target``."""
    if os.path.lexists(target):
        raise RunExistsError(f"{target} exists; an import only creates new runs: choose another output")
