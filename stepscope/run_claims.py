"""Finds the place of a new run: where its name is taken, the next number. All ranks of one job find the same."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from tracker_adapters.errors import NotARunError
from tracker_adapters.store.layout import MANIFEST, WRITER_LOCK, rank_folder, ranks, segments
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.manifest import load_manifest

from stepscope.run_places import RunPlace

Exists: TypeAlias = Literal["number", "raise"]
"""What happens to a new run whose name is taken: it gets the next number, or is refused."""

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
RANK_ZERO_TIMEOUT_S = 60.0
"""How long another rank waits until rank 0 has found the place of a run at a URL."""
_LOOK_INTERVAL_S = 0.2
MAX_NUMBER = 10_000
MAX_LOCAL_GAP = 100
"""So many numbers another rank looks at: of runs at a URL not all have a copy on this machine."""


def job_of_process(environ: Mapping[str, str] = os.environ) -> str:
    """Returns what the ranks of this start of a job have in common, and no other start has; empty where unknown.

    torchrun gives the workers of one start a folder of their own for error files, and Slurm numbers the steps of a job.
    """
    one_node = environ.get("GROUP_WORLD_SIZE", "1") == "1"
    if one_node and (error_file := environ.get("TORCHELASTIC_ERROR_FILE")):
        return str(Path(error_file).parent.parent)  # …/<rendezvous id>_<random>/attempt_0/<local rank>/error.json
    if (job := environ.get("SLURM_JOB_ID")) and (step := environ.get("SLURM_STEP_ID")):
        return f"slurm {job}.{step}.{environ.get('SLURM_RESTART_COUNT', '0')}"
    return ""


def is_alone(rank: int | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is the only one of its job, as far as the rank that it was given and its launcher say."""
    sizes = (environ.get("WORLD_SIZE"), environ.get("SLURM_NTASKS"))
    return rank is None and ("1" in sizes or not any(environ.get(variable) for variable in RANK_VARIABLES))


def places_for(asked: RunPlace, rank: int, *, alone: bool) -> Iterator[RunPlace]:
    """Yields where a new run can lie, the name itself first; another process may be quicker to take a place.

    Args:
        asked: The place that was asked for.
        rank: This process's rank.
        alone: Whether the job has no other process, so that no run that exists is its own.
    """
    job = job_of_process()
    if asked.url and rank:
        yield _joined_place(asked, rank, job)
        return
    for number in range(1, MAX_NUMBER):
        place = _numbered(asked, number)
        if _is_free(place.folder, rank, job, alone=alone, is_numbered=number > 1):
            yield place


def say_which(asked: RunPlace, place: RunPlace, *, resume: bool) -> None:
    """Says on standard error when a run does not lie where its name leads to, or is not the newest of its name."""
    if place.name != asked.name:
        sys.stderr.write(
            f"stepscope: {asked.shown} holds a run already, so this one is {place.shown}; "
            "open_run(..., resume=True) goes on with the old one\n"
        )
    elif resume and (newest := _newest(asked)) is not None:
        sys.stderr.write(f"stepscope: goes on with {asked.shown}; there is a newer run, {newest.shown}\n")


def _numbered(place: RunPlace, number: int) -> RunPlace:
    return place if number == 1 else replace(place.beside(f"{place.name}-{number}"), number=number)


def _newest(asked: RunPlace) -> RunPlace | None:
    """The last of the runs that were numbered because the name was taken."""
    newest = None
    for number in range(2, MAX_NUMBER):
        place = _numbered(asked, number)
        if not (place.folder / MANIFEST).is_file():
            break
        newest = place
    return newest


def _joined_place(asked: RunPlace, rank: int, job: str) -> RunPlace:
    """The place that rank 0 has found, which alone asks the file system at a URL what is free.

    Where the job is known it waits for rank 0, at most a minute. Otherwise, or if rank 0 opens no run, it is ``asked``.
    """
    deadline = time.monotonic() + (RANK_ZERO_TIMEOUT_S if job else 0.0)
    while True:
        for number in range(1, MAX_LOCAL_GAP):
            place = _numbered(asked, number)
            if (place.folder / MANIFEST).exists() and belongs(place.folder, rank, job):
                return place
        if time.monotonic() >= deadline:
            return asked
        time.sleep(_LOOK_INTERVAL_S)


def _is_free(folder: Path, rank: int, job: str, *, alone: bool, is_numbered: bool) -> bool:
    if is_numbered and folder.is_symlink():  # what the user did not name is not followed
        return False
    try:
        entries = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # of a name that the user gave, claiming it says what is wrong
        return not is_numbered
    if MANIFEST in entries:
        return not alone and belongs(folder, rank, job)
    # The user's own files may lie in a folder that the user named. Files with a dot are those of a rank that claims it.
    return not is_numbered or all(entry.startswith(".") for entry in entries)


def belongs(folder: Path, rank: int, job: str) -> bool:
    """Whether the run in the folder is this job's, and this rank is not in it yet."""
    if segments(rank_folder(folder, rank)):
        return False
    try:
        theirs = load_manifest(folder).job
    except NotARunError:
        return False
    if job or theirs:
        return job == theirs
    # Nothing tells the jobs apart: a rank that comes later belongs to a run which goes on, or has just been made.
    known = [rank_folder(folder, number) for number in ranks(folder)]
    return not any(map(segments, known)) or any(is_locked(store / WRITER_LOCK) for store in known)
