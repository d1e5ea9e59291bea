"""Tells whether a new attempt of a run goes back to a step before the last one that an MLflow run shows."""

from tracker_adapters.artifacts import Histogram, Image
from tracker_adapters.sink import Batch
from tracker_adapters.sinks.mlflow.index import Index
from tracker_adapters.sinks.mlflow.metrics import Metrics

_BUDGET_S = 20.0
"""For reading the index; beyond it scalars alone tell."""


def went_back(batch: Batch, metrics: Metrics, index: Index) -> bool | None:
    """Returns whether a series of the batch repeats or precedes its last step in the MLflow run.

    Scalars, histograms and images count: their steps are an axis. Texts, alerts, tables, pages and files may come
    again at any step. None when the run has none of the batch's series yet.
    """
    found = metrics.goes_back(batch.scalars) if len(batch.scalars) else None
    if found or not (batch.histograms or batch.images):
        return found
    shown: list[Histogram | Image] = [*batch.histograms.artifacts, *batch.images.artifacts]
    last = _last_steps(index)
    known = [one for one in shown if (one.kind, one.name) in last]
    if not known:
        return found
    return any(one.step <= last[one.kind, one.name] for one in known)


def _last_steps(index: Index) -> dict[tuple[str, str], int]:
    """The last step of each series by kind and name; what is only sent again lies behind the index's end."""
    try:
        lines = index.lines(_BUDGET_S)
    except TimeoutError:
        return {}
    return {(line["kind"], line["name"]): line["step"] for line in lines}
