"""Texts, tables, curves and files of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracker_adapters.artifacts import Curve, Table, Text
from tracker_adapters.errors import DamagedError
from tracker_adapters.safe_files import read_file

from stepscope.viewer.answers.answer import COLUMNS, Answer, NotFound, TooLarge, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList

MOST_CONTENTS_BYTES = 256 * 1024
"""So much of the newest contents comes along; an older one is asked for by its ``seq``."""
MOST_ROWS = 5000
MOST_FILE_BYTES = 64 << 20
_BYTES_A_CELL = 12


def texts_answer(runs: RunList, query: Query) -> Answer:
    """``texts?run=K&name=N&rank=0``: every text of a name by step, the newest with ``text``; with ``seq``, that one."""
    return _answer(runs, query, Text.kind, _text)


def tables_answer(runs: RunList, query: Query) -> Answer:
    """``tables?run=K&name=N&rank=0``: the same for tables: ``columns``, ``rows`` (at most 5000) and ``row_count``."""
    return _answer(runs, query, Table.kind, _table)


def curves_answer(runs: RunList, query: Query) -> Answer:
    """``curves?run=K&name=N&rank=0``: the same for curves: ``x``, ``y``, ``title``, ``x_label`` and ``y_label``."""
    return _answer(runs, query, Curve.kind, _curve)


def files_answer(runs: RunList, query: Query) -> Answer:
    """``files?run=K``: the files of all ranks in order of arrival; ``sha256`` names one to ``file``."""
    key = query.run()
    with runs.opened(key) as record:
        position = runs.position(key)
        found = [(rank, file) for rank in record.ranks for file in record.files(rank)]
    found.sort(key=lambda pair: pair[1].time_ns)
    files = [
        {
            "name": file.name,
            "filename": file.filename,
            "step": file.step,
            "time_ms": file.time_ns / 1e6,
            "rank": rank,
            "size": file.size,
            "sha256": file.sha256,
            "media_type": file.media_type,
        }
        for rank, file in found
    ]
    return json_answer({"position": position, "files": files}, position)


def file_answer(runs: RunList, query: Query) -> Answer:
    """``file?run=K&sha256=C``: the bytes of a file, to be saved and not shown; links are not followed."""
    sha256 = query.text("sha256")
    with runs.opened(query.run()) as record:
        file = next((file for file in reversed(record.files("all")) if file.sha256 == sha256), None)
        folder = record.path
    if file is None:
        raise NotFound(f"the run has no file with the checksum {sha256[:80]!r}")
    path = file.path.relative_to(folder)
    if file.size > MOST_FILE_BYTES:
        raise TooLarge(
            f"{file.filename} has {file.size:,} bytes; the viewer hands out files of up to {MOST_FILE_BYTES:,}. "
            f"It lies in the run's folder as {path}"
        )
    return Answer(read_file(folder, path, max_bytes=MOST_FILE_BYTES), COLUMNS, download=file.filename)


def _answer(runs: RunList, query: Query, kind: str, content: Callable[[Any], tuple[dict[str, Any], int]]) -> Answer:
    key, name = query.run(), query.text("name")
    rank = query.rank(runs)
    seq = query.whole("seq", -1, low=-1)
    with runs.opened(key) as record:
        if seq >= 0:
            return json_answer(content(record.artifact(kind, name, seq, rank))[0])
        position = runs.position(key)
        left = MOST_CONTENTS_BYTES
        entries = []
        for one in reversed(record.listed(kind, name, rank)):
            entry: dict[str, Any] = {"seq": one.seq, "step": one.step, "time_ms": one.time_ns / 1e6}
            if left > 0:
                try:
                    found, size = content(record.artifact(kind, name, one.seq, rank))
                except DamagedError as error:  # one of many
                    found, size = {"error": str(error)}, 0
                entry |= found
                left -= size
            entries.append(entry)
    return json_answer({"position": position, f"{kind}s": entries[::-1]}, position)


def _text(text: Text) -> tuple[dict[str, Any], int]:
    return {"text": text.text}, len(text.text)


def _table(table: Table) -> tuple[dict[str, Any], int]:
    found = {"columns": table.columns, "rows": table.rows[:MOST_ROWS], "row_count": len(table.rows)}
    return found, table.nbytes


def _curve(curve: Curve) -> tuple[dict[str, Any], int]:
    found = {"x": curve.x.tolist(), "y": curve.y.tolist(), "title": curve.title}
    return found | {"x_label": curve.x_label, "y_label": curve.y_label}, _BYTES_A_CELL * 2 * len(curve.x)
