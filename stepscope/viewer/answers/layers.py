"""The heat map of layers over steps, reduced to what a screen can show."""

from contextlib import closing
from typing import Any

import numpy.typing as npt
from tracker_adapters.values.metric_names import last_step

from stepscope.diagnosing.stored_evidence import scopes, stored_facts
from stepscope.runs.places import open_record
from stepscope.viewer.answers.answer import Answer, NotFound, columns_answer, json_answer
from stepscope.viewer.answers.layer_reading import ReadLayers, read_layers, read_overview
from stepscope.viewer.answers.layer_statistics import Statistic, statistics_of
from stepscope.viewer.answers.query import Query
from stepscope.viewer.answers.recent import Recent
from stepscope.viewer.watched_runs import RunList

MAX_WIDTH = 4096
MAX_SENT_CELLS = 600_000
"""Cells of one answer, of nine bytes each."""
_BEYOND = 2**63
"""Behind the last step that a store may hold."""
_KEPT_BYTES = 90_000_000
_statistics: Recent[dict[str, Statistic]] = Recent(32)
_tables: Recent[ReadLayers] = Recent(_KEPT_BYTES, lambda read: read.nbytes)


def layers_answer(runs: RunList, query: Query) -> Answer:
    """``layers?run=K&scope=&rank=0``: which statistics of tensors there are; with ``statistic=S`` its values.

    The list has of each statistic key, title, section, scale, number of tensors and points, whether it comes from
    histograms, and the run's scopes and last step. Of a run that lives, an answer may be some seconds old, and says so:
    ``behind``. Values are columns: ``first_step`` (columns,), ``low`` and ``high``
    float32 (tensors, columns), the smallest and the largest finite value of each cell, and ``bits``: 1 finite, 2 NaN,
    4 +inf, 8 -inf, 16 not finite, 0 not measured. ``first``, ``last`` and ``width`` choose steps and the number of
    columns.
    ``detail=overview`` answers from roll-ups, where all values have not been read yet.
    """
    key, rank = query.run(), query.rank(runs)
    asked_at = runs.position(key)
    known_at, found = _found(runs, key, query.text("scope", ""), rank)
    if not query.text("statistic", ""):
        return _list(runs, key, rank, found, behind=known_at != asked_at)
    statistic = found.get(query.text("statistic"))
    if statistic is None:
        raise NotFound(f"statistic is {query.text('statistic')[:200]!r}; expected one of {', '.join(found) or 'none'}")
    position, live = asked_at, runs.run(key).head().live
    name = (key, rank, query.text("scope", ""), statistic.key)
    read, form = _tables.peek(name, position), "values"
    if read is None and query.text("detail", "values") == "overview" and not statistic.measure:
        form = "overview"
        with runs.opened(key) as record:
            read = read_overview(record, rank, statistic)
    elif read is None:
        place = runs.run(key).place

        def compute(before: ReadLayers | None) -> ReadLayers:
            # A record of its own: what takes seconds must not keep the answers that share one waiting.
            with closing(open_record(place)) as record:
                return read_layers(record.path, rank, statistic, before)

        position, read = _tables.get(name, position, compute, live=live)
    # In an address a step is a float64, which may be rounded up.
    first, last = query.whole("first", 0, high=_BEYOND), query.whole("last", _BEYOND, high=_BEYOND)
    width = query.whole("width", 1024, low=1, high=MAX_WIDTH)
    cells = read.table.window(first, last, max(1, min(width, MAX_SENT_CELLS // max(1, read.table.rows))))
    meta = {
        "statistic": statistic.key,
        "title": statistic.title,
        "scale": statistic.scale,
        "form": form,
        "tensors": read.tensors,
        "names": [statistic.names.get(tensor, "") for tensor in read.tensors],
        "span": cells.span,
        "last_step": read.table.last_step,
        "damaged": read.damaged,
        "behind": position != asked_at,
    }
    columns: dict[str, npt.NDArray[Any]] = {
        "first_step": cells.first_steps,
        "low": cells.low,
        "high": cells.high,
        "bits": cells.bits,
    }
    return columns_answer(meta, columns, position, is_behind=position != asked_at)


def _found(runs: RunList, key: str, scope: str, rank: int) -> tuple[str, dict[str, Statistic]]:
    def compute(before: dict[str, Statistic] | None) -> dict[str, Statistic]:
        with runs.opened(key) as record:
            return statistics_of(record.names(rank), stored_facts(record, scope, rank), scope)

    head = runs.run(key).head()
    return _statistics.get((key, scope, rank), runs.position(key), compute, live=head.live)


def _list(runs: RunList, key: str, rank: int, found: dict[str, Statistic], *, behind: bool) -> Answer:
    position = runs.position(key)
    with runs.opened(key) as record:
        known = scopes(record)
        last = last_step((info.name, info.last_step) for info in record.names(rank))
    listed: list[dict[str, Any]] = [
        {
            "key": one.key,
            "title": one.title,
            "section": one.section,
            "scale": one.scale,
            "tensors": len(one.names),
            "points": one.points,
            "histograms": bool(one.measure),
        }
        for one in found.values()
    ]
    content = {"position": position, "scopes": known, "last_step": last, "statistics": listed, "behind": behind}
    return json_answer(content, position, is_behind=behind)
