"""One scalar over the steps, as points or as what lies in ranges of steps."""

import numpy as np

from stepscope.viewer.answers.answer import Answer, columns_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList


def series_answer(runs: RunList, query: Query) -> Answer:
    """``series?run=K&name=N&rank=0``: columns step, time_ms and value."""
    key, name, rank = query.run(), query.text("name"), query.whole("rank", 0)
    with runs.opened(key) as record:
        position = runs.position(key)
        series = record.scalars(name, rank)
    columns = {"step": series.steps, "time_ms": series.times_ns / 1e6, "value": series.values}
    return columns_answer({"form": "points", "name": name}, {k: np.asarray(v) for k, v in columns.items()}, position)
