"""Sinks that live in memory: one that keeps, one that fails, one that refuses some artifacts, one that hangs."""

import json
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import KINDS, Artifact, RunInfo, RunStatus, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkError
from tracker_adapters.sink import Unshown, checked_options


class MemorySink:
    """Keeps what it is handed in ``artifacts``, in order; opening it with a token forgets what came later."""

    kinds: ClassVar[frozenset[str]] = frozenset(KINDS)

    def __init__(self, target: str = "memory") -> None:
        self.target = target
        self.artifacts: list[Artifact] = []
        self.info: RunInfo | None = None
        self.status: RunStatus | None = None
        self.closed = False

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Takes an optional ``target``, which names the sink."""
        return {"target": "memory"} | checked_options("memory", options, {"target": str})

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns where it lies: nowhere but in memory."""
        return f"{options['target']} lives in memory: read .artifacts"

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Forgets everything after ``token``."""
        self.info = info
        self.closed = False
        del self.artifacts[json.loads(token) if token else 0 :]

    def write(self, batch: Batch) -> Unshown:
        """Keeps the artifacts in the order of their sequence numbers."""
        rows: list[tuple[int, Artifact]] = batch.singles()
        rows += zip(batch.histograms.seqs, batch.histograms.artifacts, strict=True)
        scalars = batch.scalars
        for i, name in enumerate(scalars.names):
            scalar = Scalar(
                name=name,
                step=int(scalars.steps[i]),
                time_ns=int(scalars.times_ns[i]),
                value=float(scalars.values[i]),
            )
            rows.append((int(scalars.seqs[i]), scalar))
        rows.sort(key=lambda row: row[0])
        self.artifacts += [artifact for _, artifact in rows]
        return {}

    def flush(self) -> bytes:
        """Returns the number of artifacts kept."""
        return json.dumps(len(self.artifacts)).encode()

    def finish(self, status: RunStatus) -> None:
        """Keeps the run's status."""
        self.status = status

    def close(self) -> None:
        """Marks the sink closed."""
        self.closed = True


class FailingSink(MemorySink):
    """Raises SinkError from ``write`` the first ``failures`` times; ``None`` means always."""

    def __init__(self, failures: int | None = None, target: str = "failing") -> None:
        super().__init__(target)
        self.failures_left = failures
        self.failed = 0

    def write(self, batch: Batch) -> Unshown:
        """Raises, or keeps the batch once the failures are used up."""
        if self.failures_left is None or self.failures_left > 0:
            if self.failures_left is not None:
                self.failures_left -= 1
            self.failed += 1
            raise SinkError(f"failing on purpose, {self.failed} times so far")
        return super().write(batch)


class RefusingSink(MemorySink):
    """Raises SinkError from ``write`` for a batch with an artifact of a name in ``refused``, or while ``down`` is set.

    ``batches`` holds the numbers of artifacts that it was given, refused or not.
    """

    def __init__(self, refused: Collection[str], target: str = "refusing") -> None:
        super().__init__(target)
        self.refused = frozenset(refused)
        self.down = False
        self.batches: list[int] = []

    def write(self, batch: Batch) -> Unshown:
        """Keeps the batch, or nothing of it."""
        self.batches.append(len(batch))
        names = {*batch.scalars.names, *(one.name for column in batch.columns() for one in column.artifacts)}
        if self.down or names & self.refused:
            raise SinkError("down" if self.down else f"refused on purpose: {sorted(names & self.refused)}")
        return super().write(batch)


class StalledSink(MemorySink):
    """Blocks in ``write`` until ``release`` is set; ``entered`` tells that it got there."""

    def __init__(self, target: str = "stalled") -> None:
        super().__init__(target)
        self.entered = threading.Event()
        self.release = threading.Event()

    def write(self, batch: Batch) -> Unshown:
        """Waits for ``release``, then keeps the batch."""
        self.entered.set()
        self.release.wait()
        return super().write(batch)
