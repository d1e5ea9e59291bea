"""Artifacts as rows of a W&B history, for the offline file and for the SDK."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tracker_adapters.artifacts import Alert, Artifact, Cell, Curve, File, Histogram, Image, Page, Table, Text
from tracker_adapters.sink import Report, ScalarColumns, is_page_name
from tracker_adapters.sinks.wandb.keys import NAME_KEY, STEP_KEY, Keys, escape

MAX_HISTOGRAM_BINS = 512
"""More are refused by ``wandb.Histogram`` (wandb 0.31)."""
NO_BINS = ([0], [0.0, 1.0])
"""Counts and edges of a histogram without a finite element: W&B shows none without a bin."""
ODD_COUNTS = ("nan", "+inf", "-inf")
"""What a histogram's further keys say behind its own, in the order of ``histogram_columns.TALLIES``."""
MAX_TABLE_ROWS = 10_000
"""What a table shown in a run keeps; further rows are cut off (``wandb.Table.MAX_ROWS``, wandb 0.31)."""
_HTML = '<!doctype html><meta charset="utf-8">'
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG picture with its size in pixels."""

    png: bytes
    width: int
    height: int
    caption: str


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page of HTML."""

    text: str


@dataclass(frozen=True, slots=True)
class Cells:
    """A table of at most MAX_TABLE_ROWS rows."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class LinePlot(Cells):
    """A table of two columns, and the chart that draws the second one over the first."""

    title: str

    @staticmethod
    def table_key(key: str) -> str:
        """Returns the key of the table that belongs to the chart under ``key``."""
        return f"Custom Chart Tables/{key}_table"

    def panel(self, key: str) -> dict[str, Any]:
        """Returns the chart as ``wandb.plot.line(..., split_table=True)`` describes it (wandb 0.31)."""
        name, default = {"name": "name", "fields": []}, {"name": "_defaultColorIndex", "fields": []}
        table = {"name": "tableKey", "value": self.table_key(key)}
        fields = [{"name": "id", "fields": []}, name, default, {"name": "summaryTable", "args": [table], "fields": []}]
        run_sets = {"name": "runSets", "args": [{"name": "runSets", "value": "${runSets}"}], "fields": fields}
        return {
            "panel_type": "Vega2",
            "panel_config": {
                "panelDefId": "wandb/line/v0",
                "fieldSettings": {"x": self.columns[0], "y": self.columns[1], "stroke": None},
                "stringSettings": {"title": self.title},
                "transform": {"name": "tableWithLeafColNames"},
                "userQuery": {"queryFields": [run_sets]},
            },
        }


Row: TypeAlias = dict[str, Any]
"""A key's value is what JSON holds, NaN and infinities included, or a Picture, HtmlPage, Cells or LinePlot."""


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


def artifact_rows(artifact: Artifact, keys: Keys, view_command: str = "") -> Iterator[Row]:
    """Yields the rows that show anything but a scalar: one, or several for a long table.

    An alert ends with ``view_command``, which opens the run in the viewer, unless it is empty.
    """
    key = keys.of(artifact.kind, artifact.name)
    base: Row = {STEP_KEY: artifact.step, "_timestamp": artifact.time_ns / 1e9}
    if escape(artifact.name, artifact.kind) != escape(artifact.name):
        base[NAME_KEY] = artifact.name
    match artifact:
        case Table():
            for start in range(0, max(1, len(artifact.rows)), MAX_TABLE_ROWS):
                cells = Cells(artifact.columns, artifact.rows[start : start + MAX_TABLE_ROWS])
                yield base | {f"{key} (rows from {start})" if start else key: cells}
        case Curve():
            table = artifact.plainer()
            places = np.linspace(0, len(table.rows) - 1, min(len(table.rows), MAX_TABLE_ROWS)).round().astype(int)
            rows = [table.rows[place] for place in places.tolist()]
            yield base | {key: LinePlot(table.columns, rows, artifact.title or artifact.name)}
        case Histogram():
            yield base | _histogram(key, artifact)
        case Image():
            caption = f"{artifact.name} · step {artifact.step}"
            yield base | {key: Picture(artifact.png, artifact.width, artifact.height, caption)}
        case File(name=name) if is_page_name(name):
            yield base | {key: HtmlPage(artifact.path.read_text(encoding="utf-8", errors="replace"))}
        case _:
            yield base | {key: HtmlPage(_HTML + _html(artifact, view_command))} | _verdict(artifact, keys)


def _verdict(artifact: Artifact, keys: Keys) -> Row:
    """What a session's report says in one line, as a value of its own: the summary shows the last one."""
    report = Report.of(artifact) if isinstance(artifact, Text) else None
    if report is None or not report.verdict:
        return {}
    return {keys.of("text", f"{report.scope}/stepscope/verdict".lstrip("/")): report.verdict}


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A page or file as a W&B artifact that refers to the file where it lies."""

    source: Page | File
    name: str
    filename: str
    metadata: dict[str, Any]

    @classmethod
    def of(cls, artifact: Page | File, run_id: str) -> TrackedFile:
        """Returns what W&B shall know of a page or file of the W&B run ``run_id``."""
        slug = _NOT_IN_NAMES.sub("-", artifact.name)[:32].strip("-")
        digest = hashlib.sha256(artifact.name.encode()).hexdigest()[:8]
        metadata: dict[str, Any] = {"name": artifact.name, "step": artifact.step, "sha256": artifact.sha256}
        if isinstance(artifact, File):
            metadata["media_type"] = artifact.media_type
        filename = _NOT_IN_NAMES.sub("-", artifact.filename).lstrip(".")[-100:] or artifact.kind
        run = _NOT_IN_NAMES.sub("-", run_id)[:60]
        return cls(artifact, f"{run}-{artifact.kind}-{slug}-{digest}", filename, metadata)


def _histogram(key: str, artifact: Histogram) -> Row:
    edges, counts = artifact.edges(MAX_HISTOGRAM_BINS)
    values, bins = (counts.tolist(), edges.tolist()) if counts.size else NO_BINS
    odd = zip(ODD_COUNTS, (artifact.nan, artifact.pos_inf, artifact.neg_inf), strict=True)
    return {key: {"_type": "histogram", "values": values, "bins": bins}} | {
        f"{key} ({word})": count for word, count in odd if count
    }


def _html(artifact: Artifact, view_command: str) -> str:
    match artifact:
        case Text():
            return f'<pre data-kind="text" style="white-space: pre-wrap">{_escape(artifact.text)}</pre>'
        case Alert():
            level, message = artifact.level, _escape(artifact.message)
            shown = f'<p data-kind="alert"><b>{level}</b> <span style="white-space: pre-wrap">{message}</span></p>'
            return shown + (f"<p>In the viewer: <code>{_escape(view_command)}</code></p>" if view_command else "")
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
