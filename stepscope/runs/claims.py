"""Finds the place of a new run: where its name is taken, the next number. All ranks of one job find the same."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from tracker_adapters.errors import NotARunError
from tracker_adapters.store.layout import MANIFEST, WRITER_LOCK, rank_folder, ranks, segments
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.manifest import load_manifest
from tracker_adapters.terminal_text import say

from stepscope.runs.places import RunPlace

Exists: TypeAlias = Literal["number", "raise"]
"""What happens to a new run whose name is taken: it gets the next number, or is refused."""

JOB_VARIABLE = "STEPSCOPE_JOB"
"""Says what the processes of one start of a job have in common, where no launcher does."""
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "JSM_NAMESPACE_LOCAL_RANK")
LEADER_TIMEOUT_S = 60.0
"""How long another rank waits until the first one of its machine has found the place of a run at a URL."""
_LOOK_INTERVAL_S = 0.2
MAX_NUMBER = 10_000
MAX_LOCAL_GAP = 100
"""So many numbers another rank looks at: of runs at a URL not all have a copy on this machine."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who asks for a run: the process's rank, and by what it tells its own job's runs from others.

    ``job`` is what ``job_of_process`` returns. ``family`` is what ``family_of_process`` does where the caller gave the
    rank, else empty: processes that a launcher numbers can be several jobs of one family. ``alone`` says that the job
    has no other process, so that no run that exists is its own. ``leads`` says that it is the first rank of its
    machine, which finds the place of a run at a URL, and has it copied.
    """

    rank: int
    job: str
    family: str
    alone: bool
    leads: bool = False

    @classmethod
    def of(cls, given_rank: int | None, rank: int) -> Claim:
        """Returns this process's claim; ``given_rank`` is what the caller gave, ``rank`` what follows from it."""
        family = "" if given_rank is None else family_of_process()
        return cls(rank, job_of_process(), family, is_alone(given_rank), is_first_of_machine(rank))


def family_of_process() -> str:
    """Returns what a process and all that it started with ``multiprocessing`` have in common, and no other process has.

    It is a checksum of the key by which they trust each other.
    """
    return hashlib.sha256(b"stepscope" + multiprocessing.current_process().authkey).hexdigest()[:16]


def job_of_process(environ: Mapping[str, str] = os.environ) -> str:
    """Returns what the ranks of this start of a job have in common, and no other start has; empty where unknown.

    torchrun gives the workers of one start a folder of their own for error files, and Slurm numbers the steps of a job.
    ``STEPSCOPE_JOB`` says it in their place.
    """
    if told := environ.get(JOB_VARIABLE):
        return told
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


def is_first_of_machine(rank: int, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a rank is rank 0, or a launcher says that it is the first one on another machine."""
    local = next((value for name in _LOCAL_RANK_VARIABLES if (value := environ.get(name))), "")
    return rank == 0 or local == "0"


def places_for(asked: RunPlace, claim: Claim) -> Iterator[RunPlace]:
    """Yields where a new run can lie, the name itself first; another process may be quicker to take a place."""
    if asked.url and not claim.leads:
        yield _joined_place(asked, claim)
        return
    for number in range(1, MAX_NUMBER):
        place = _numbered(asked, number)
        if _is_free(place.folder, claim, is_numbered=number > 1):
            yield place


def say_which(asked: RunPlace, place: RunPlace, *, resume: bool) -> None:
    """Says on standard error when a run does not lie where its name leads to, or is not the newest of its name."""
    if place.name != asked.name:
        say(
            f"{asked.shown} already holds a run: the new one is recorded in {place.shown}; "
            "open_run(..., resume=True) continues the old one"
        )
    elif resume and (newest := _newest(asked)) is not None:
        say(f"continues {asked.shown}; there is a newer run, {newest.shown}")


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


def _joined_place(asked: RunPlace, claim: Claim) -> RunPlace:
    """The place that the first rank of this machine has found, which alone asks the file system at a URL what is free.

    Where a launcher started both it waits for that one, at most a minute. Otherwise, or if that one opens no run, it is
    ``asked``.
    """
    is_launched = claim.job or any(os.environ.get(name) for name in _LOCAL_RANK_VARIABLES)
    deadline = time.monotonic() + (LEADER_TIMEOUT_S if is_launched else 0.0)
    while True:
        for number in range(1, MAX_LOCAL_GAP):
            place = _numbered(asked, number)
            if (place.folder / MANIFEST).exists() and belongs(place.folder, claim):
                return place
        if time.monotonic() >= deadline:
            return asked
        time.sleep(_LOOK_INTERVAL_S)


def _is_free(folder: Path, claim: Claim, *, is_numbered: bool) -> bool:
    if is_numbered and folder.is_symlink():  # what the user did not name is not followed
        return False
    try:
        entries = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # of a name that the user gave, claiming it says what is wrong
        return not is_numbered
    if MANIFEST in entries:
        return belongs(folder, claim)
    # The user's own files may lie in a folder that the user named. Files with a dot are those of a rank that claims it.
    return not is_numbered or all(entry.startswith(".") for entry in entries)


def belongs(folder: Path, claim: Claim) -> bool:
    """Whether the run in the folder is this job's, and this rank is not in it yet.

    A launcher's word decides where there is one. Else a rank that was given belongs to the run that a process of its
    own family has made, also when the other ranks have ended or died; any other one joins only a run that continues, or
    has just been made.
    """
    if claim.alone or segments(rank_folder(folder, claim.rank)):
        return False
    try:
        theirs = load_manifest(folder)
    except NotARunError:
        return False
    if claim.job or theirs.job:
        return claim.job == theirs.job
    if claim.family and claim.family == theirs.family:
        return True
    known = [rank_folder(folder, number) for number in ranks(folder)]
    return not any(map(segments, known)) or any(is_locked(store / WRITER_LOCK) for store in known)
