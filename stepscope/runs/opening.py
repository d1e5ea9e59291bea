"""Opens runs, to write and to read them."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.config import Missing, SinksSpec, choose_sinks
from tracker_adapters.delivery.handle import DeliveryMode
from tracker_adapters.errors import RunBusyError, RunError, RunExistsError
from tracker_adapters.store.connections import is_damage
from tracker_adapters.store.layout import DELIVERY_DATABASE, ranks
from tracker_adapters.store.manifest import Manifest, claim_folder, new_run_id
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.writing.run_store import RunStore
from tracker_adapters.terminal_text import say
from tracker_adapters.values.checked_values import at_least, check_value

from stepscope.interrupts import interrupts_held
from stepscope.runs.byte_sizes import parse_bytes
from stepscope.runs.claims import RANK_VARIABLES, Claim, Exists, belongs, family_of_process, places_for, say_which
from stepscope.runs.environment import Recorded, environment_of_process, ranks_of_launcher, recorded
from stepscope.runs.live_run import OnError, Run
from stepscope.runs.places import RunPlace, open_record, place_of
from stepscope.runs.slow_folders import told_when_slow
from stepscope.runs.source_recording import SourceRecording
from stepscope.runs.stats import RunStats, SinkStats
from stepscope.runs.system_metrics import EVERY_S, SystemMetrics, switched_off
from stepscope.runs.unclosed import close_reopened

MAX_BYTES_VARIABLE = "STEPSCOPE_MAX_RUN_BYTES"
MIN_RUN_BYTES = 20 * 10**6
INTERRUPTED_CLOSE_S = 2.0
"""How long a run is closed whose opening was interrupted; the person waits at the keyboard."""


def open_run(
    path: str | Path,
    *,
    sinks: SinksSpec = ("local",),
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    resume: bool = False,
    exists: Exists = "number",
    missing: Missing = "raise",
    on_error: OnError = "log",
    delivery: DeliveryMode = "process",
    rank: int | None = None,
    max_run_bytes: int | str | None = None,
    page: bool = False,
    system_metrics: bool = True,
    environment: bool = True,
) -> Run:
    """Opens a run, which stores emitted artifacts in a folder and delivers them to the sinks.

    Args:
        path: The run's folder, created if it does not exist; ``~`` is the user's home folder. At a URL that fsspec
            supports, such as ``s3://bucket/runs/exp1``, and on a network file system, the live part of the run is in a
            local cache folder, ``Run.path``, and another process uploads sealed files.
        sinks: The sinks: names such as ``"tensorboard"`` or ``"mlflow:sqlite:///x.db"``, mappings such as
            ``{"type": "local", "path": "out"}``, a TOML file, or sink objects; see
            ``tracker_adapters.config.choose_sinks``. ``STEPSCOPE_SINKS`` overrides it.
        name: The displayed name; the folder's name by default.
        config: The run's configuration; values that JSON cannot represent are stored as their ``str``.
        tags: Labels.
        resume: Continues the run in the folder as a new attempt: if it records a step again, readers return the new
            value. If there is no run, it starts one.
        exists: What to do if the folder already holds a run and ``resume`` is false. ``number``: the new run gets the
            next free number, such as ``runs/exp1-2``, which is printed once on standard error and is in ``Run.path``;
            all ranks of a job get the same number. ``raise``: RunExistsError. In a notebook or console, a run that is
            still open under this name is closed first.
        missing: What to do if a sink's package is not installed: ``raise``, or ``local`` to warn and write local files.
        on_error: ``log`` keeps failures after an emit from the training; ``raise`` raises them at the next flush or
            close, for tests.
        delivery: ``process`` delivers from child processes; ``thread`` from threads, for tests.
        rank: This process's rank; from ``RANK``, ``SLURM_PROCID`` or ``JSM_NAMESPACE_RANK`` by default. Each rank
            writes its own store; the sinks show rank 0. A rank passed here joins the run of that name that this
            process, or another one that ``multiprocessing`` started with it, has created, whether or not the other
            ranks are still running. If a launcher such as torchrun or Slurm numbers its starts, that number decides.
        max_run_bytes: The limit for the run's store and blobs: bytes, or a text such as ``"10GB"``, at least 20 MB.
            Older parts are compacted: every name keeps its whole range of steps at a lower resolution.
            ``STEPSCOPE_MAX_RUN_BYTES`` overrides it. None for no limit.
        page: Records the viewer's page with the run's data when the run closes, as one HTML file of at most 10 MB,
            whose data are collected for at most 5 seconds. MLflow opens it among the artifacts, W&B shows it as HTML.
        system_metrics: Records the load of machine, NVIDIA devices and this process every ten seconds, as scalars
            under ``system/``; their step is the number of seconds since the run was created. They need no step of the
            training. ``STEPSCOPE_SYSTEM_METRICS=off`` switches them off.
        environment: Records where the training runs: machine, command, seeds, packages, the Git commit and
            uncommitted changes. ``STEPSCOPE_ENVIRONMENT=off`` switches it off.

    Raises:
        RunExistsError: When the folder holds a run, ``resume`` is false and ``exists`` is ``raise``.
        RunBusyError: When another live process writes to it.
        NotARunError: When the folder belongs to something else or cannot be written.
        SinkConfigError: For a sink that is unknown or configured wrongly.
        MissingPackageError: When a sink's package is not installed.
        ArtifactError: For a configuration or tags of the wrong type.
        RunError: For another argument of the wrong type or value, or when the store cannot be opened.
    """
    check_value("on_error", on_error, OnError, RunError)
    check_value("delivery", delivery, DeliveryMode, RunError)
    check_value("exists", exists, Exists, RunError)
    check_value("page", page, bool, RunError)
    check_value("system_metrics", system_metrics, bool, RunError)
    check_value("environment", environment, bool, RunError)
    samples = system_metrics and not switched_off()
    about = recorded() if environment else "off"
    check_value("rank", rank, at_least(0) | None, RunError)
    limit = _checked_limit(os.environ.get(MAX_BYTES_VARIABLE) or max_run_bytes)
    asked = place_of(path)
    claim = Claim.of(rank, _rank_of_process() if rank is None else rank)
    rank = claim.rank
    given: dict[str, Any] = {"name": name, "config": config, "tags": tags}
    given = {key: value for key, value in given.items() if value is not None}
    Manifest(RunInfo(**{"id": "-", "name": asked.name, **given}))
    close_reopened(asked.shown, rank)
    keeps_name = resume or exists == "raise"
    places: Iterable[RunPlace] = [asked] if keeps_name else places_for(asked, claim)
    with told_when_slow("opening the run", asked.shown, rank=rank):
        for place in places:
            try:
                # Everything that the caller can have got wrong is checked before anything is written.
                chosen = choose_sinks(sinks, place.output, missing=missing, number=place.number) if rank == 0 else ()
                make = partial(
                    Run, sinks=chosen, rank=rank, delivery=delivery, on_error=on_error, asked_for=asked.shown
                )
                run = _open_at(
                    place, given, make, claim, resume=resume, limit=limit, keeps_name=keeps_name, about=about
                )
            except (RunExistsError, RunBusyError):
                if keeps_name:
                    raise
                continue  # another process was quicker
            except (OSError, sqlite3.Error) as error:
                if isinstance(error, RunError):
                    raise
                raise RunError(
                    f"cannot open the run in {place.folder}: {error}; expected {_expected(error)}"
                ) from error
            if rank == 0 or ranks(place.folder) == [rank]:  # it is the first one there
                say_which(asked, place, resume=resume)
            if page and rank == 0:
                run.call_before_close(partial(_record_page, run))
            if samples:
                run.call_before_close(SystemMetrics(run, EVERY_S).stop)
            if about == "on" and rank == 0:
                run.call_before_close(SourceRecording(run).finish)
            return run
    raise RunExistsError(f"{asked.shown} and all numbers after it are taken; choose another name")


def _open_at(
    place: RunPlace,
    given: Mapping[str, Any],
    make: Callable[[Manifest, RunStore], Run],
    claim: Claim,
    *,
    resume: bool,
    limit: int | None,
    keeps_name: bool,
    about: Recorded,
) -> Run:
    folder, rank = place.folder, claim.rank
    environment = ranks_of_launcher() if about == "off" else environment_of_process()
    info = RunInfo(**{"id": new_run_id(), "name": place.name, "environment": environment, **given})
    fresh = Manifest(info, job=claim.job, family=family_of_process())
    is_further_machine = bool(place.url) and claim.leads and rank > 0
    if is_further_machine and resume:  # which of the runs there was its own is not known
        say(f"the ranks of this machine are not copied to {place.url}; stepscope upload {folder} URL does it later")
    remote = place.opened(resume=resume) if rank == 0 or (is_further_machine and not resume) else None
    manifest = claim_folder(folder) or fresh.save_new(folder)
    if manifest.info.id != fresh.info.id and not keeps_name and not belongs(folder, claim):
        raise RunExistsError(f"{folder} holds a run")
    has_ended = manifest.info.status != "running"
    plain = {key: getattr(fresh.info, key) for key in given}
    info = replace(manifest.info, status="running", environment=environment, **plain)
    manifest = replace(manifest, info=info, ended_ns=None)
    holder: list[Run] = []
    store: RunStore | None = None
    try:
        with interrupts_held():
            store = RunStore(
                folder,
                rank=rank,
                resume=resume,
                max_run_bytes=limit,
                on_tick=lambda: holder[0].tick() if holder else None,
            )
            if rank == 0 or (has_ended and min(ranks(folder)) == rank):  # else the first rank's configuration stays
                manifest.save(folder)
            upload = remote.start() if remote is not None else None
            holder.append(make(manifest, store))
            if upload is not None:
                holder[0].copied_by(upload)
    except BaseException:
        if holder:  # Ctrl-C came meanwhile
            holder[0].finish("failed", timeout=INTERRUPTED_CLOSE_S)
        elif store is not None:
            store.close()
        raise
    return holder[0]


def _record_page(run: Run) -> None:
    # The viewer reads runs, so that it is known here by its name alone.
    import_module("stepscope.viewer.run_page").record_page(run)


def read_run(path: str | Path) -> RunRecord:
    """Opens a run for reading, also while it is written; needs neither torch nor a tracker.

    At a URL, the parts that are read are downloaded into the cache folder. If another machine is writing the run, its
    last segment is not available.

    Raises:
        NotARunError: When the folder holds no run.
        RunError: When a URL cannot be read.
        MissingPackageError: When a package that a URL needs is not installed.
    """
    return open_record(path)


def _expected(error: Exception) -> str:
    if isinstance(error, OSError) or not is_damage(error):
        return "a writable folder"
    return f"a valid {DELIVERY_DATABASE}: move it away, and each sink starts again from the first artifact"


def _checked_limit(limit: int | str | None) -> int | None:
    return None if limit is None else parse_bytes("max_run_bytes", limit, at_least=MIN_RUN_BYTES)


def _rank_of_process() -> int:
    for variable in RANK_VARIABLES:
        value = os.environ.get(variable, "")
        if value:
            if not value.isdigit():
                raise RunError(f"the environment variable {variable} is {value!r}; expected a rank such as 0")
            return int(value)
    return 0


__all__ = ["Run", "RunStats", "SinkStats", "open_run", "read_run"]
