"""The process in which a side is measured: one of its own, or a fork where a command is only tried."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 900.0
HERE = Path(__file__).parent.parent.absolute()


def apart(task: dict[str, Any], folder: Path) -> str | None:
    """Measures a side in a process that imports everything itself; returns why it did not, if so."""
    command = [sys.executable, "-m", "watched.one_side", json.dumps(task)]
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return _late()
    return _failure(done.returncode, done.stderr)


def forked(task: dict[str, Any], folder: Path) -> str | None:
    """The same in a fork of this process, which has imported torch and what takes seconds beside it."""
    _import_what_takes_seconds()
    errors = folder / "errors"
    process = multiprocessing.get_context("fork").Process(target=_measure, args=(task, folder, errors))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        return _late()
    return _failure(process.exitcode, errors.read_text(encoding="utf-8", errors="replace"))


def _import_what_takes_seconds() -> None:
    import sklearn.datasets  # noqa: F401
    import torch

    torch.set_num_threads(1)  # threads do not live on in a fork
    torch.optim.SGD([torch.zeros(1)])  # the first optimizer imports torch's compiler


def _measure(task: dict[str, Any], folder: Path, errors: Path) -> None:
    from watched.one_side import main

    os.chdir(folder)
    with errors.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    main(**task)


def _late() -> str:
    return f"not done after {TIMEOUT_S:.0f} s"


def _failure(code: int, errors: str) -> str | None:
    return (errors.strip().splitlines() or [f"exit status {code}"])[-1] if code else None
