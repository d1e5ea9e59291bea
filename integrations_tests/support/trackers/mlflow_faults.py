"""What tests of faults ask of a run's MLflow sink and of the tracker behind it."""

from collections import Counter
from pathlib import Path
from typing import Any

from fault_training import NAMES, emitted_by
from faults import accounts, stored_counts
from mlflow import MlflowClient
from readback_mlflow import read_back
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.ledger import Ledger, Position
from waiting import until

import stepscope


def position(folder: Path) -> Position:
    """Returns how far the MLflow sink of a run is."""
    with Ledger(rank_folder(folder, 0)) as ledger:
        return next((one for one in ledger.positions().values() if one.sink == "mlflow"), Position("mlflow", ""))


def wait_until_delivered(folder: Path, steps: int, timeout_s: float = 90.0) -> float:
    """Waits until everything of the first steps has been delivered; returns the seconds that it took."""
    wanted = emitted_by(steps).total()
    return until(lambda: position(folder).seq >= wanted, timeout_s)


def wait_until_failing(folder: Path, timeout_s: float = 60.0) -> float:
    """Waits until the sink has noticed that something is wrong; returns the seconds that it took."""
    return until(lambda: position(folder).error != "", timeout_s)


def assert_shown_exactly_once(options: dict[str, Any], folder: Path, steps: int) -> None:
    """Asserts that MLflow shows what the training emitted, each artifact once, with the values that are stored."""
    seen = read_back(options)
    assert Counter(one.kind for one in seen) == stored_counts(folder) == emitted_by(steps)
    doubled = {key: n for key, n in Counter((one.kind, one.name, one.step) for one in seen).items() if n > 1}
    assert not doubled
    with stepscope.read_run(folder) as record:
        for name in NAMES:
            series = record.scalars(name)
            stored = dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))
            assert {one.step: one.value for one in seen if (one.kind, one.name) == ("scalar", name)} == stored
    account = accounts(folder)["mlflow"]
    assert (account.delivered, account.pending, account.failed) == (emitted_by(steps).total(), 0, {})


def runs_in(address: str, experiment: str) -> int:
    """Returns how many MLflow runs an experiment holds."""
    client = MlflowClient(tracking_uri=address)
    return len(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))
