"""Our local sink beside Python's own csv writer: scalars a second to the file."""

import csv
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from delivery.tensorboard_side import NAMES, Rates, delivered, names_and_values, store_scalars


def sides(folder: Path, *, rounds: int = 3, scalars: int = 200_000) -> Rates:
    """Measures both sides in turn, round after round.

    Args:
        folder: Where both of them write; empty.
        rounds: How often.
        scalars: To write in a round, of 50 names.

    Returns:
        Rows a second by side, one for each round. ``stepscope, CSV`` is from the run store to ``scalars.csv``;
        ``csv.writer`` writes rows of the same fields as they come.
    """
    rates: Rates = {"stepscope, CSV": [], "csv.writer": []}
    for number in range(rounds):
        run = folder / f"{number} run"
        store_scalars(run, scalars)
        rates["stepscope, CSV"].append(scalars / delivered(run, "local"))
        rates["csv.writer"].append(written_by_csv(folder / f"{number}.csv", scalars))
    return rates


def written_by_csv(path: Path, number: int) -> float:
    names, values = names_and_values(number)
    start = time.perf_counter()
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        for place, value in enumerate(values):
            rows.writerow((names[place % NAMES], place // NAMES, datetime.now(UTC).isoformat(), value, 1))
        stream.flush()
        os.fsync(stream.fileno())
    return number / (time.perf_counter() - start)
