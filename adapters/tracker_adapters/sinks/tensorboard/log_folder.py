"""The folder that TensorBoard is started with: it calls a run by the path from there to its event file."""

from itertools import islice
from pathlib import Path

_RUN = "run.json"
"""What lies in each run's folder."""
_MOST_RUNS = 50
"""TensorBoard reads all runs of its folder into memory."""
_BESIDE_RUNS = ("mlartifacts", "mlruns", "wandb")


def log_option(target: Path) -> tuple[str, str]:
    """Returns the option that gives a run the most telling name and searches nothing else, and its value.

    That is ``--logdir`` with the folder of the runs, ``runs``, where ``target`` is the run's folder and beside that are
    at most 50 folders, all of runs: TensorBoard then says ``exp1``. Beside anything else it is ``--logdir_spec`` with
    the run's name and folder, and TensorBoard says the same. A target elsewhere is called by its own name, one in the
    run's folder by both names.
    """
    run = target if (target / _RUN).is_file() else target.parent
    if not (run / _RUN).is_file():
        return "--logdir", str(run)
    if _holds_only_runs(run.parent):
        return "--logdir", str(run.parent)
    # Commas and colons separate what this option takes.
    if any(mark in str(run) for mark in ",:"):
        return "--logdir", str(run)
    return "--logdir_spec", f"{run.name}:{run}"


def _holds_only_runs(folder: Path) -> bool:
    try:
        folders = list(islice((path for path in folder.iterdir() if path.is_dir()), _MOST_RUNS + 1))
        return len(folders) <= _MOST_RUNS and all(
            (path / _RUN).is_file() or path.name in _BESIDE_RUNS for path in folders
        )
    except OSError:
        return False
