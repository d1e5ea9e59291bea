"""A live run from the first emit to the tracker's last byte: all stages at once, each in its own process."""

import time
from pathlib import Path

import stepscope
from delivery.tensorboard_side import NAMES, Rates, names_and_values

CLOSE_TIMEOUT_S = 600.0


def sides(folder: Path, *, rounds: int = 3, scalars: int = 500_000) -> Rates:
    """Measures a run for each sink, and one without any, in turn, round after round.

    Args:
        folder: Where they write; empty.
        rounds: How often.
        scalars: To emit in a round, of 50 names, one call each; a tenth of them for MLflow, which is slower.

    Returns:
        Scalars a second by sink, one for each round: from the first call to the end of ``close``, when everything is in
        the tracker. Starting the delivery process and importing the SDK are included.
    """
    rates: Rates = {}
    for number in range(rounds):
        for sink in (None, "tensorboard", "local", "wandb", "mlflow"):
            count = scalars // 10 if sink == "mlflow" else scalars
            title = f"live run, {sink or 'no sink'}"
            rates.setdefault(title, []).append(count / live(folder / f"{number} {sink}" / "run", sink, count))
    return rates


def live(folder: Path, sink: str | None, number: int) -> float:
    """Emits scalars through a run with a sink; returns the seconds until they are all delivered."""
    names, values = names_and_values(number)
    run = stepscope.open_run(folder, sinks=[sink] if sink else [])
    start = time.perf_counter()
    for place, value in enumerate(values):
        run.scalar(names[place % NAMES], value, step=place // NAMES)
    if not run.close(CLOSE_TIMEOUT_S):
        raise RuntimeError(f"sink {sink} does not have everything: {run.stats}")
    return time.perf_counter() - start
