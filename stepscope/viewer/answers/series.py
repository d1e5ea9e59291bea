"""One scalar over the steps, as points, as what lies in ranges of steps, or as CSV."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from tracker_adapters.errors import ArtifactError
from tracker_adapters.store.reading.record import RowsWanted, RunRecord, ScalarRows
from tracker_adapters.store.reading.scalar_rows import MOST_STEPS

from stepscope.viewer.answers.answer import Answer, BadRequest, NotFound, columns_answer
from stepscope.viewer.answers.long_series import Extent, long_series
from stepscope.viewer.answers.query import Query
from stepscope.viewer.answers.reduction import Floats, reduced
from stepscope.viewer.watched_runs import RunList
from stepscope.viewer.watched_series import Series

POINTS_A_PIXEL = 2
WIDTH = 1000
CSV_HEAD = "run,name,step,time_ms,value,min,max\n"
CSV_ROWS_AT_ONCE = 10_000
Shown: TypeAlias = tuple[dict[str, Any], dict[str, Floats]]
_CURSOR = re.compile(r"(\d{1,16})\.(\d{1,19})")


def series_answer(runs: RunList, query: Query) -> Answer:
    """``series?run=K&name=N&rank=0&first=&last=&width=&since=``: one scalar, of the latest attempts.

    ``first`` and ``last`` are steps, ``width`` the pixels of the chart, 1000 by default. Up to two points a pixel come
    as ``form: "points"``: step, time_ms, value, all by step. More come as ``form: "ranges"``, at most one a pixel: step
    and last_step, time_ms and last_time_ms, min, max, first, last and mean of the finite values (NaN where there are
    none), and how many values there are: count, nan, pinf and ninf.

    Of more than 200,000 values the ranges are the store's roll-ups: without first and mean, with times that are
    interpolated, and with the values of earlier attempts.

    ``since`` is the ``cursor`` of an earlier answer. Then ``whole`` is false, and there are only the points behind
    those that were told; where that is not possible (a resumed run repeats steps, or there are too many), ``whole`` is
    true, and the answer is as without ``since``. ``count``, ``first_step`` and ``last_step`` in meta are of all steps.
    """
    asked = _Asked.of(query, query.rank(runs))
    since = _cursor(query.text("since", ""))
    with runs.opened(asked.run) as record:
        position = runs.position(asked.run)
        new = None if since is None else _since(record, asked, since)
        if since is not None and new is not None:
            meta, columns = _points_since(new, since[1], asked)
        else:
            meta, columns = _whole(runs, record, asked)
    return columns_answer({"name": asked.name, "rank": asked.rank, "whole": new is None, **meta}, columns, position)


def csv_answer(runs: RunList, query: Query) -> Answer:
    """``csv?runs=K,K&name=N&rank=0``: every point of the latest attempts in each run that has the series, by step.

    With ``rank=all`` it has those of each rank, as ``rank 3 of <run>``. ``names`` has what each run is called, one a
    line, for runs that have the same name. The columns are those of the page's own CSV, of which ``min`` and ``max``
    are for ranges of steps, and empty here.
    """
    name, found = query.text("name"), []
    together = query.text("rank", "") == "all"
    keys, names = query.runs(), query.text("names", "").split("\n")
    if names != [""] and len(names) != len(keys):
        raise BadRequest(f"names has {len(names)} lines; expected one for each of the {len(keys)} runs")
    called = dict(zip(keys, names, strict=False))
    for key in keys:
        with suppress(NotFound):
            for rank in runs.run(key).head().ranks if together else [query.rank(runs, key)]:
                with suppress(ArtifactError), runs.opened(key) as record:
                    run = called.get(key) or record.info.name
                    shown = f"rank {rank} of {run}" if together else run
                    found.append((shown, Series.of(record.scalar_rows(name, rank))))
    if not found:
        raise NotFound(f"none of the runs has a scalar {name[:200]!r} of that rank")
    return Answer(b"", "text/csv", download=f"{name}.csv", chunks=lambda: _chunks(name, found))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for: ``steps`` are the first and the last one."""

    run: str
    name: str
    rank: int
    steps: tuple[float, float]
    width: int

    @classmethod
    def of(cls, query: Query, rank: int) -> Self:
        steps = (query.number("first", 0.0), query.number("last", float(MOST_STEPS)))
        width = query.whole("width", WIDTH, 1, 20_000)
        return cls(query.run(), query.text("name"), rank, steps, width)


def _cursor(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(f"since is {text[:40]!r}; expected the cursor of an earlier answer")
    return int(found[1]), int(found[2])


def _since(record: RunRecord, asked: _Asked, since: tuple[int, int]) -> ScalarRows | None:
    """The rows behind a cursor, where they only continue the series."""
    rows = record.scalar_rows(asked.name, asked.rank, RowsWanted(after=since[0]))
    if len(rows) > POINTS_A_PIXEL * asked.width or (np.diff(rows.steps, prepend=since[1]) <= 0).any():
        return None
    return rows


def _points_since(rows: ScalarRows, reached: int, asked: _Asked) -> Shown:
    last_step = int(rows.steps[-1]) if len(rows) else reached
    chosen = (rows.steps >= asked.steps[0]) & (rows.steps <= asked.steps[1])
    columns = _points(rows.steps[chosen], rows.times_ns[chosen] / 1e6, rows.values[chosen])
    return {"form": "points", "cursor": f"{rows.last_seq}.{last_step}", "last_step": last_step}, columns


def _whole(runs: RunList, record: RunRecord, asked: _Asked) -> Shown:
    of = (asked.name, asked.rank)
    long = None if runs.series.has(asked.run, *of) else long_series(record, of, asked.steps, asked.width)
    if long is None:
        series = runs.series.read(asked.run, record, *of)
        ends = (int(series.steps[0]), int(series.steps[-1])) if len(series.steps) else (0, 0)
        return _shown(series, Extent(len(series.steps), *ends), series.last_seq, asked)
    if long.part is not None:
        return _shown(long.part, long.extent, long.last_seq, asked)
    assert long.ranges is not None
    return {"form": "ranges", "rollups": True, "span": long.span, **_meta(long.extent, long.last_seq)}, long.ranges


def _shown(series: Series, extent: Extent, last_seq: int, asked: _Asked) -> Shown:
    """What is shown of a series that was read, with one point beyond each end: a line goes on there."""
    first = max(0, int(np.searchsorted(series.steps, asked.steps[0])) - 1)
    last = int(np.searchsorted(series.steps, asked.steps[1], side="right")) + 1
    chosen = (series.steps[first:last], series.times_ms[first:last], series.values[first:last])
    if len(chosen[0]) <= POINTS_A_PIXEL * asked.width:
        return {"form": "points", **_meta(extent, last_seq)}, _points(*chosen)
    return {"form": "ranges", **_meta(extent, last_seq)}, reduced(*chosen, asked.width)


def _meta(extent: Extent, last_seq: int) -> dict[str, Any]:
    return {"cursor": f"{last_seq}.{extent.last_step}", **asdict(extent)}


def _points(steps: npt.NDArray[np.int64], times_ms: Floats, values: Floats) -> dict[str, Floats]:
    return {"step": steps.astype(np.float64), "time_ms": times_ms, "value": values}


def _chunks(name: str, found: list[tuple[str, Series]]) -> Iterator[bytes]:
    yield CSV_HEAD.encode()
    for run, series in found:
        begin = f"{_quoted(run)},{_quoted(name)},"
        for first in range(0, len(series.steps), CSV_ROWS_AT_ONCE):
            part = slice(first, first + CSV_ROWS_AT_ONCE)
            columns = series.steps[part].tolist(), series.times_ms[part].tolist(), series.values[part].tolist()
            rows = [f"{begin}{step},{time},{value},,\n" for step, time, value in zip(*columns, strict=True)]
            yield "".join(rows).encode(errors="replace")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in '",\n\r') else text
