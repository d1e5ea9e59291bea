"""The histograms of one tensor over the steps, on one grid of bins."""

import numpy as np
from tracker_adapters.histograms.layout import MAX, MEAN, MIN, TALLIES
from tracker_adapters.store.reading.scalar_rows import MOST_STEPS

from stepscope.viewer.answers.answer import Answer, columns_answer
from stepscope.viewer.answers.histogram_grid import on_one_grid
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
MAX_STEPS = 1000


def histograms_answer(runs: RunList, query: Query) -> Answer:
    """``histograms?run=K&name=N&rank=0&steps=200``: columns, of at most ``steps`` histograms.

    Of more, neighbours are merged, which is exact: ``step`` and ``last_step`` say which steps each row covers. Beside
    ``count``, ``nan``, ``pos_inf``, ``neg_inf``, ``zero``, ``min``, ``max``, ``mean`` and ``std`` (rows,) there are
    ``percentiles`` (rows, 7), ``edges`` (bins + 1,) and ``bins`` (rows, bins): elements in each, see ``Grid``.
    ``first`` and ``last`` choose steps.
    """
    key, name = query.run(), query.text("name")
    rank = query.rank(runs)
    first, last = (
        query.whole(name, otherwise, high=MOST_STEPS) for name, otherwise in (("first", 0), ("last", MOST_STEPS))
    )
    most = query.whole("steps", 200, low=1, high=MAX_STEPS)
    with runs.opened(key) as record:
        position = runs.position(key)
        rows = record.histogram_columns(name, rank)
    chosen = np.flatnonzero((rows.steps >= first) & (rows.steps <= last))
    steps, columns = rows.steps[chosen], rows.columns.take(chosen)
    groups = np.arange(len(chosen)) * most // max(len(chosen), most)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    merged = columns.merged(groups) if len(chosen) else columns
    grid = on_one_grid(merged)
    tally = dict(zip(TALLIES, merged.tallies.T, strict=True))
    percentiles = [found for *_, found in merged.shapes_and_percentiles(None, PERCENTILES)]
    fits = grid.counts.max(initial=0) < 2**32
    meta = {
        "name": name,
        "percentiles": PERCENTILES,
        "zero_bin": grid.zero_bin,
        "histograms": len(chosen),
        "first_step": rows.steps[0],
        "last_step": rows.steps[-1],
    }
    arrays = {
        "step": steps[starts],
        "last_step": steps[np.append(starts[1:], len(steps)) - 1] if len(steps) else steps,
        **{key: tally[key] for key in ("count", "nan", "pos_inf", "neg_inf", "zero")},
        "min": merged.moments[:, MIN],
        "max": merged.moments[:, MAX],
        "mean": merged.moments[:, MEAN],
        "std": merged.stds,
        "percentiles": np.array(percentiles, np.float64).reshape(-1, len(PERCENTILES)),
        "edges": grid.edges,
        "bins": grid.counts.astype(np.uint32 if fits else np.float64),
    }
    return columns_answer(meta, arrays, position)
