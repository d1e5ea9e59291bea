"""The folder that TensorBoard is started with: it calls a run by the path from there to its event file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

_RUN = "run.json"
"""What lies in each run's folder."""
_MOST_RUNS = 50
"""TensorBoard reads all runs of its folder into memory."""
_BESIDE_RUNS = ("mlartifacts", "mlruns", "wandb")


def log_folder(target: Path) -> Path:
    """Returns the folder in which a run has the most telling name and nothing else is searched.

    That is the folder of the runs, ``runs``, where ``target`` lies in the run's own folder and beside that are at most
    50 folders, all of runs: TensorBoard then says ``exp1/tensorboard``. Else it is the one above ``target``.
    """
    run = target.parent
    return run.parent if (run / _RUN).is_file() and _holds_only_runs(run.parent) else run


def _holds_only_runs(folder: Path) -> bool:
    try:
        folders = list(islice((path for path in folder.iterdir() if path.is_dir()), _MOST_RUNS + 1))
        return len(folders) <= _MOST_RUNS and all(
            (path / _RUN).is_file() or path.name in _BESIDE_RUNS for path in folders
        )
    except OSError:
        return False
