"""The MLflow sink beside MLflow's own client, all into SQLite databases: scalars a second."""

import time
from pathlib import Path
from typing import Any

from delivery.tensorboard_side import NAMES, Rates, delivered, names_and_values, store_scalars

_METRICS_PER_REQUEST = 1000


def sides(folder: Path, *, rounds: int = 3, scalars: int = 50_000, calls: int = 1000) -> Rates:
    """Measures all sides in turn, round after round.

    Args:
        folder: Where all of them write; empty.
        rounds: How often.
        scalars: To log in a round, of 50 names, where they go in batches.
        calls: To ``mlflow.log_metric`` in a round, one scalar each.

    Returns:
        Scalars a second by side, one for each round. ``stepscope`` is from the run store to the database, the making
        and ending of the MLflow run included; the others are from the call to the database.
    """
    rates: Rates = {"stepscope": [], "mlflow.log_metric": [], "MlflowClient.log_batch": []}
    for number in range(rounds):
        ours, theirs = folder / f"{number} ours", folder / f"{number} theirs"
        client_of_new_database(ours)
        store_scalars(ours / "run", scalars)
        rates["stepscope"].append(scalars / delivered(ours / "run", "mlflow"))
        client = client_of_new_database(theirs)
        rates["mlflow.log_metric"].append(one_by_one(client, calls))
        rates["MlflowClient.log_batch"].append(in_batches(client, scalars))
    return rates


def client_of_new_database(folder: Path) -> Any:
    """Makes a tracking database with its tables, which takes MLflow seconds, and returns a client for it."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    client.create_experiment("theirs", artifact_location=(folder / "theirs").as_uri())
    return client


def one_by_one(client: Any, number: int) -> float:
    import mlflow

    mlflow.set_tracking_uri(client.tracking_uri)
    names, values = names_and_values(number)
    with mlflow.start_run(experiment_id=client.get_experiment_by_name("theirs").experiment_id):
        mlflow.log_metric("first", 0.0)
        start = time.perf_counter()
        for place, value in enumerate(values):
            mlflow.log_metric(names[place % NAMES], value, step=place // NAMES)
        seconds = time.perf_counter() - start
    mlflow.set_tracking_uri(None)
    return number / seconds


def in_batches(client: Any, number: int) -> float:
    from mlflow.entities import Metric

    names, values = names_and_values(number)
    run_id = client.create_run(client.get_experiment_by_name("theirs").experiment_id).info.run_id
    start = time.perf_counter()
    for first in range(0, number, _METRICS_PER_REQUEST):
        batch = [
            Metric(names[place % NAMES], values[place], int(time.time() * 1000), place // NAMES)
            for place in range(first, min(first + _METRICS_PER_REQUEST, number))
        ]
        client.log_batch(run_id, metrics=batch)
    return number / (time.perf_counter() - start)
