"""An offline W&B run, written as W&B's service writes it, but durable, and cut back to a position after any end.

The service's own offline file is no durable log: killed, it lost up to all rows; stopped, it blocks ``run.log``.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tracker_adapters.artifacts import File, Page, RunInfo
from tracker_adapters.errors import StartOver
from tracker_adapters.sink import HistogramRows, ScalarColumns
from tracker_adapters.sinks.wandb import records
from tracker_adapters.sinks.wandb.folders import RunFolder
from tracker_adapters.sinks.wandb.histograms import HistogramEncoder
from tracker_adapters.sinks.wandb.history import Encoded, HistoryEncoder
from tracker_adapters.sinks.wandb.keys import STEP_KEY, Keys
from tracker_adapters.sinks.wandb.log_file import LogFile
from tracker_adapters.sinks.wandb.media import Media
from tracker_adapters.sinks.wandb.rows import Cells, HtmlPage, LinePlot, Picture, Row, TrackedFile
from tracker_adapters.sinks.wandb.scalars import ScalarEncoder

_LONGEST_EXIT = 80
"""Bytes that ``finish`` adds at most, with what frames them; a row with its summary takes more than twice as many."""


class OfflineRun:
    """One W&B run in a folder of its own; ``create`` or ``reopen`` makes one.

    Args:
        folder: Where it lies.
        log: Its log, open for appending.
        place: ``id``, ``entity``, ``project``, ``group``, ``name`` and ``notes`` of the run.
        info: Our run.
        tags: The run's tags.
        keys: Gives names their keys.
        start_ns: When it started, in nanoseconds since 1970.
        rows: How many rows of history were written before.
    """

    def __init__(
        self,
        folder: RunFolder,
        log: LogFile,
        *,
        place: Mapping[str, str | None],
        info: RunInfo,
        tags: Sequence[str],
        keys: Keys,
        start_ns: int,
        rows: int,
    ) -> None:
        self._place, self._info, self._tags = place, info, tags
        self.id = folder.run_id
        self.folder = folder
        self._log = log
        self._start_ns = start_ns
        self._rows = rows
        self._media = Media(folder.path, place, info.id)
        history = HistoryEncoder(start_ns)
        self._scalars = ScalarEncoder(keys, history)
        self._histograms = HistogramEncoder(keys, history)
        self._last: dict[str, bytes] = {}

    @classmethod
    def create(
        cls,
        target: Path,
        *,
        place: Mapping[str, str | None],
        info: RunInfo,
        tags: list[str],
        keys: Keys,
        rows: int = 0,
        after_ns: int = 0,
    ) -> Self:
        """Makes a new folder with a run in it.

        Args:
            target: The sink's target.
            place: See the class.
            info: Our run.
            tags: The run's tags.
            keys: Gives names their keys.
            rows: How many rows an uploaded folder of the same run holds; this one goes on after it.
            after_ns: When that folder's run started: ``wandb sync`` uploads folders by their start, so this one's must
                be later, also when the clock was put back.
        """
        start_ns = max(time.time_ns(), after_ns + 10**9)
        folder = RunFolder.make(target, str(place["id"]), info.id, start_ns)
        run = records.run(place, info, tags, start_ns)
        try:
            # wandb sync writes there, also when the run has no media.
            (folder.path / "files").mkdir()
            log = LogFile.create(folder.log, [records.header("stepscope"), run, records.step_metric(STEP_KEY)])
        except OSError:  # delivery tries again, for as long as a disk is full
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        return cls(folder, log, place=place, info=info, tags=tags, keys=keys, start_ns=start_ns, rows=rows)

    @classmethod
    def reopen(
        cls,
        folder: RunFolder,
        position: Mapping[str, Any],
        *,
        place: Mapping[str, str | None],
        info: RunInfo,
        tags: list[str],
        keys: Keys,
    ) -> Self:
        """Goes on in a folder exactly at ``position``; whatever came later is cut off.

        Raises:
            StartOver: When the folder or a part before the position is gone.
        """
        log = LogFile.reopen(folder.log.parent, folder.log.name, position["offset"])
        start_ns, rows = position["start_ns"], position["rows"]
        return cls(folder, log, place=place, info=info, tags=tags, keys=keys, start_ns=start_ns, rows=rows)

    def scalars(self, columns: ScalarColumns) -> None:
        """Adds scalars as rows of the history."""
        self._add(self._scalars.encode(columns, self._rows))

    def histograms(self, rows: HistogramRows) -> None:
        """Adds histograms, each as a row of the history."""
        for encoded in self._histograms.encode(rows, self._rows):
            self._add(encoded)

    def row(self, row: Row) -> None:
        """Adds one row of the history, and the files that it refers to."""
        written: list[bytes] = []
        values: dict[str, Any] = {}
        for key, value in row.items():
            if isinstance(value, LinePlot):
                written.append(records.panel(key, value.panel(key)))
                key = value.table_key(key)
            if isinstance(value, (Picture, HtmlPage, Cells)):
                value, before = self._media.write(key, self._rows, value)
                written += before
            values[key] = value
        values["_runtime"] = round(row["_timestamp"] - self._start_ns / 1e9, 6)
        values["_step"] = self._rows
        items = {key: records.value_items({key: value}) for key, value in values.items()}
        self._log.append([*written, records.history(self._rows, b"".join(items.values()))])
        self._last |= items
        self._rows += 1

    def note(self, text: str) -> None:
        """Sets the run's notes, as the SDK does: by describing the run again."""
        self._place = {**self._place, "notes": text}
        self._log.append([records.run(self._place, self._info, self._tags, self._start_ns)])

    def describe(self, place: Mapping[str, str | None], info: RunInfo, tags: Sequence[str]) -> None:
        """Sets the run's name, configuration and tags; its notes stay."""
        self._place = {**self._place, **place}
        self._info, self._tags = info, tags
        self._log.append([records.run(self._place, self._info, self._tags, self._start_ns)])

    def track(self, artifact: Page | File) -> None:
        """Adds a page or file as a W&B artifact that refers to it."""
        self._log.append([self._media.artifact(TrackedFile.of(artifact, self.id))])

    def sync(self) -> dict[str, Any]:
        """Puts everything on the disk; returns the position that stands for it."""
        if self._last:
            self._log.append([records.summary(b"".join(self._last.values()))])
            self._last = {}
        self._media.sync()
        offset = self._log.sync()
        return {"folder": self.folder.path.name, "offset": offset, "rows": self._rows, "start_ns": self._start_ns}

    def finish(self, exit_code: int) -> None:
        """Ends the W&B run; ``reopen`` takes the end back."""
        seconds = max(0, (time.time_ns() - self._start_ns) // 10**9)
        ended = records.summary(records.value_items({"_wandb": {"runtime": seconds}}))
        self._log.append([ended, records.run_exit(exit_code, seconds)])
        self._log.sync()

    def close(self) -> None:
        """Closes the log."""
        self._log.close()

    def _add(self, encoded: Encoded) -> None:
        self._log.append(encoded.records)
        self._rows += len(encoded.records)
        self._last |= encoded.last


def uploaded_beyond(folder: RunFolder, position: Mapping[str, Any]) -> bool:
    """Whether a folder holds rows after a position, so that an upload of it would have shown them."""
    try:
        return folder.log.stat().st_size - int(position["offset"]) > _LONGEST_EXIT
    except FileNotFoundError as error:
        raise StartOver(f"the W&B log {folder.log} is gone") from error
