"""Artifacts as rows of a W&B history."""

from __future__ import annotations

import hashlib
import html
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from tracker_adapters.artifacts import Alert, Artifact, File, Histogram, Image, Page, Table, Text
from tracker_adapters.sink import ScalarColumns
from tracker_adapters.sinks.wandb.keys import NAME_KEY, STEP_KEY, Keys, escape

MAX_HISTOGRAM_BINS = 512
"""More are refused by ``wandb.Histogram`` (wandb 0.31)."""
MAX_TABLE_ROWS = 10_000
"""What a table shown in a run keeps; further rows are cut off (``wandb.Table.MAX_ROWS``, wandb 0.31)."""
_HTML = '<!doctype html><meta charset="utf-8">'
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")

Row = dict[str, Any]


def scalar_rows(columns: ScalarColumns, keys: Keys) -> Iterator[Row]:
    """Yields one row for consecutive scalars of one step; a name that comes again starts another row.

    A row has the time of its first scalar.
    """
    row: Row = {}
    times = (columns.times_ns / 1e9).tolist()
    rows = zip(columns.names, columns.steps.tolist(), times, columns.values.tolist(), strict=True)
    for name, step, time, value in rows:
        key = keys.of("scalar", name)
        if row and (row[STEP_KEY] != step or key in row):
            yield row
            row = {}
        if not row:
            row = {STEP_KEY: step, "_timestamp": time}
        row[key] = value
    if row:
        yield row


class RowMaker:
    """Makes the rows of everything but scalars.

    Args:
        keys: Gives names their keys.
        run_id: The id of the W&B run, part of the names of its W&B artifacts.
    """

    def __init__(self, keys: Keys, run_id: str) -> None:
        import wandb

        self._sdk: Any = wandb
        self._keys = keys
        self._run_id = _NOT_IN_NAMES.sub("-", run_id)[:60]

    def rows(self, artifact: Artifact) -> Iterator[Row]:
        """Yields the rows that show an artifact: one, or several for a long table.

        A row has to be logged before the next one is asked for: its picture lies in a temporary file.
        """
        key = self._keys.of(artifact.kind, artifact.name)
        base: Row = {STEP_KEY: artifact.step, "_timestamp": artifact.time_ns / 1e9}
        if escape(artifact.name, artifact.kind) != escape(artifact.name):
            base[NAME_KEY] = artifact.name
        match artifact:
            case Table():
                for start in range(0, max(1, len(artifact.rows)), MAX_TABLE_ROWS):
                    yield base | {f"{key} (rows from {start})" if start else key: self._table(artifact, start)}
            case Histogram():
                yield base | self._histogram(key, artifact)
            case Image():
                with tempfile.NamedTemporaryFile(suffix=".png") as file:
                    file.write(artifact.png)
                    file.flush()
                    caption = f"{artifact.name} · step {artifact.step}"
                    yield base | {key: self._sdk.Image(file.name, caption=caption)}
            case _:
                page = self._sdk.Html(_HTML + self._html(artifact), inject=False, data_is_not_path=True)
                yield base | {key: page}

    def tracked_file(self, artifact: Page | File) -> Any:
        """Returns a page or file as a W&B artifact that refers to the file where it lies."""
        slug = _NOT_IN_NAMES.sub("-", artifact.name)[:32].strip("-")
        digest = hashlib.sha256(artifact.name.encode()).hexdigest()[:8]
        metadata = {"name": artifact.name, "step": artifact.step, "sha256": artifact.sha256}
        if isinstance(artifact, File):
            metadata["media_type"] = artifact.media_type
        tracked = self._sdk.Artifact(
            f"{self._run_id}-{artifact.kind}-{slug}-{digest}", type=artifact.kind, metadata=metadata
        )
        filename = _NOT_IN_NAMES.sub("-", artifact.filename).lstrip(".")[-100:] or artifact.kind
        # Stored files never change, so W&B needs no copy of its own.
        tracked.add_file(str(artifact.path), name=filename, policy="immutable", skip_cache=True)
        return tracked

    def _histogram(self, key: str, artifact: Histogram) -> Row:
        edges, counts = artifact.edges(MAX_HISTOGRAM_BINS)
        binned = (counts.tolist(), edges.tolist()) if counts.size else ([0], [0.0, 1.0])
        odd = {"nan": artifact.nan, "+inf": artifact.pos_inf, "-inf": artifact.neg_inf}
        return {key: self._sdk.Histogram(np_histogram=binned)} | {
            f"{key} ({word})": count for word, count in odd.items() if count
        }

    def _table(self, artifact: Table, start: int) -> Any:
        rows = [list(row) for row in artifact.rows[start : start + MAX_TABLE_ROWS]]
        return self._sdk.Table(columns=list(artifact.columns), data=rows, allow_mixed_types=True)

    def _html(self, artifact: Artifact) -> str:
        match artifact:
            case Text():
                return f'<pre data-kind="text" style="white-space: pre-wrap">{_escape(artifact.text)}</pre>'
            case Alert():
                level, message = artifact.level, _escape(artifact.message)
                return f'<p data-kind="alert"><b>{level}</b> <span style="white-space: pre-wrap">{message}</span></p>'
            case Page() | File():
                contents = artifact.contents if isinstance(artifact, Page) else ()
                lines = "".join(
                    f"<li>datapoint {entry.datapoint}, {_escape(entry.debugger)}: {_escape(entry.summary)}</li>"
                    for entry in contents
                )
                return (
                    f'<p data-kind="{artifact.kind}">{_escape(artifact.filename)}, {artifact.size} bytes, '
                    f"SHA-256 <code>{artifact.sha256}</code></p><ul>{lines}</ul>"
                )
            case _:
                raise AssertionError(f"no rule for {artifact.kind}")


def _escape(text: str) -> str:
    # HTML readers turn a bare carriage return into a line feed.
    return html.escape(text).replace("\r", "&#13;")
