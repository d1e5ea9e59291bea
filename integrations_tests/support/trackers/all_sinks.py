"""All four sinks on one run, and what each shows of it, by the tracker's own reader."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import readback_local
import readback_mlflow
import readback_tensorboard
import readback_wandb
from faults import accounts, stored_counts
from mlflow_delivery import with_database
from tracker_adapters.registry import load_sink
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.testing.contract import Shown
from waiting import until

import stepscope

READERS: dict[str, Callable[[dict[str, Any]], list[Shown]]] = {
    "local": readback_local.read_back,
    "tensorboard": readback_tensorboard.read_back,
    "wandb": readback_wandb.read_back,
    "mlflow": readback_mlflow.read_back,
}
SINKS = tuple(READERS)


def prepared(folder: Path) -> Path:
    """Lays an empty MLflow database where the run in ``folder`` will look for it; returns the folder."""
    with_database(MLflowSink.resolve({}, folder))
    return folder


def shown_by(sink: str, folder: Path) -> list[Shown]:
    """Returns what a tracker shows of a run."""
    return READERS[sink](load_sink(sink).resolve({}, folder))


def shown_twice(shown: Sequence[Shown]) -> int:
    """Returns how often a tracker shows an artifact again that it shows already."""
    return len(shown) - len({(one.kind, one.name, one.step) for one in shown})


def delivered_by_each(folder: Path) -> list[int]:
    """Returns how many artifacts each sink of a run that lives has taken; 0 for one that has not begun."""
    if not (rank := rank_folder(folder, 0)).exists():
        return [0]
    with Ledger(rank) as ledger:
        return [position.delivered for position in ledger.positions().values()]


def wait_until_each_has(folder: Path, artifacts: int, timeout_s: float = 90.0) -> float:
    """Waits until each sink has taken so many artifacts; returns the seconds that it took."""
    return until(lambda: min(delivered_by_each(folder)) >= artifacts, timeout_s)


def assert_each_shows_everything_once(
    folder: Path, sinks: Sequence[str] = SINKS, unshown: Mapping[str, Counter[tuple[str, str]]] | None = None
) -> None:
    """Asserts that stored = delivered + failed in each sink, and that each tracker shows each artifact once.

    Scalars are compared by value, the other kinds by name and step.

    Args:
        folder: A run of one attempt that nobody delivers any more.
        sinks: Those that the run has.
        unshown: By sink, how many artifacts it counts as failed and does not show, by (kind, reason).
    """
    found = accounts(folder)
    assert set(found) == set(sinks)
    stored = stored_counts(folder)
    with stepscope.read_run(folder) as record:
        values = {
            (info.name, step): value
            for info in record.names()
            if info.kind == "scalar"
            for step, value in zip(*_series(record, info.name), strict=True)
        }
    assert len(values) == stored["scalar"]
    for sink, account in found.items():
        failed = (unshown or {}).get(sink, Counter())
        reasons: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for (kind, reason), count in failed.items():
            kinds[kind] += count
            reasons[reason] += count
        assert account.failed == reasons, sink
        assert (account.delivered, account.pending) == (stored.total() - kinds.total(), 0), sink
        shown = shown_by(sink, folder)
        wanted = stored - kinds
        if sink == "tensorboard":
            wanted["text"] += wanted.pop("file", 0)  # it shows a line that says which file
        assert Counter(one.kind for one in shown) == wanted, sink
        assert shown_twice(shown) == 0, sink
        rounded = np.float32 if sink == "tensorboard" else float
        seen = {(one.name, one.step): one.value for one in shown if one.kind == "scalar"}
        assert seen == {key: float(rounded(value)) for key, value in values.items()}, sink


def _series(record: Any, name: str) -> tuple[list[int], list[float]]:
    series = record.scalars(name)
    return series.steps.tolist(), series.values.tolist()
