"""``init``: opens the run, and keeps it for the calls of the module."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tracker_adapters.errors import NotARunError, RunError
from tracker_adapters.store.layout import MANIFEST
from tracker_adapters.terminal_text import say
from tracker_adapters.values.metric_names import last_step

from stepscope.compat.errors import refuse
from stepscope.compat.joined_runs import JoinedRun, join_or_open
from stepscope.compat.wandb.logged_run import Run
from stepscope.compat.wandb.run_config import parsed
from stepscope.compat.wandb.settings import Settings
from stepscope.runs.opening import read_run

_MODES = ("online", "offline", "disabled", "shared", None)
_RESUMES = ("allow", "must", "never", "auto", True, False, None)
_runs: list[Run] = []


def init(
    entity: str | None = None,
    project: str | None = None,
    dir: str | os.PathLike[str] | None = None,
    id: str | None = None,
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    config: Any = None,
    config_exclude_keys: Sequence[str] | None = None,
    config_include_keys: Sequence[str] | None = None,
    allow_val_change: bool | None = None,
    group: str | None = None,
    job_type: str | None = None,
    mode: str | None = None,
    force: bool | None = None,
    reinit: bool | str | None = None,
    resume: bool | str | None = None,
    resume_from: str | None = None,
    fork_from: str | None = None,
    save_code: bool | None = None,
    tensorboard: bool | None = None,
    sync_tensorboard: bool | None = None,
    monitor_gym: bool | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    anonymous: Any = None,
) -> Run:
    """Opens a run in ``<dir>/<project>/<id or name>``; under ``stepscope run`` the script joins its run.

    What is not given comes from W&B's variables: ``WANDB_PROJECT``, ``WANDB_NAME``, ``WANDB_RUN_ID``, ``WANDB_MODE``
    and so on.

    Args:
        entity: Whose project, for a W&B sink.
        project: A folder, and a tag ``project:…``.
        dir: The folder above, ``runs`` by default.
        id: Names the run's folder, so that ``resume`` finds it.
        name: The displayed name; without an id also the folder, else ``run``. If that is taken, it gets a number.
        notes: Recorded as the text ``notes``.
        tags: Labels.
        config: A mapping, or a namespace of argparse.
        config_exclude_keys: Leaves entries of the configuration out.
        config_include_keys: Takes these entries alone.
        allow_val_change: Without effect.
        group: A tag ``group:…``.
        job_type: A tag ``job_type:…``.
        mode: ``offline`` and ``online`` deliver to W&B, ``disabled`` records nothing; by default local files are
            written. ``STEPSCOPE_SINKS`` takes precedence.
        force: Without effect.
        reinit: What becomes of a run that goes on: ``True`` and ``finish_previous`` end it, ``create_new`` leaves it
            alone; by default it is returned.
        resume: ``allow``, ``auto`` and True continue the run in the folder, if there is one; ``must`` expects one, and
            ``never`` expects none.
        save_code: Records the script as the file ``code/<name>``.
        resume_from: Not supported.
        fork_from: Not supported.
        tensorboard: Not supported.
        sync_tensorboard: Not supported.
        monitor_gym: Not supported.
        settings: See ``Settings``.
        anonymous: Without effect.

    Raises:
        UnsupportedCallError: For an argument that is not supported.
        RunError: And what else ``open_run`` raises.
    """
    refuse("init", {"resume_from": resume_from, "fork_from": fork_from}, "resume continues a run")
    refuse("init", {"monitor_gym": monitor_gym}, "log films with Video")
    instead = "import stepscope.compat.tensorboard, whose SummaryWriter records too"
    refuse("init", {"tensorboard": tensorboard, "sync_tensorboard": sync_tensorboard}, instead)
    given = {
        "entity": entity, "project": project, "dir": dir, "id": id, "name": name, "notes": notes, "tags": tags,
        "group": group, "job_type": job_type, "mode": mode, "resume": resume, "reinit": reinit,
    }  # fmt: skip
    about = _completed(given, settings)
    if _runs and about["reinit"] not in (True, "finish_previous", "create_new"):
        say(f"init: run {_runs[-1].name!r} is still open and is returned; call finish first, or pass reinit=True")
        return _runs[-1]
    if about["reinit"] in (True, "finish_previous"):
        while _runs:
            _runs[-1].finish()
    joined, first_step = (None, 0) if about["mode"] == "disabled" else _opened(about)
    run = Run(joined, about, _forget, first_step)
    wanted = parsed(config)
    if config_include_keys is not None:
        wanted = {key: value for key, value in wanted.items() if key in config_include_keys}
    run.config.update({key: value for key, value in wanted.items() if key not in (config_exclude_keys or ())})
    if joined is not None and run.notes:
        joined.emitter.text("notes", str(run.notes), step=first_step)
    script = Path(sys.argv[0]) if sys.argv else Path()
    if joined is not None and save_code and script.is_file():
        joined.emitter.file(script, name=f"code/{script.name}", step=first_step)
    _runs.append(run)
    return run


def current() -> Run | None:
    """Returns the run of the last ``init`` that goes on; None where there is none."""
    return _runs[-1] if _runs else None


def _forget(run: Run) -> None:
    if run in _runs:
        _runs.remove(run)


def _completed(given: dict[str, Any], settings: Settings | Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments, completed by settings and by W&B's variables."""
    if settings is not None and not isinstance(settings, Settings):
        settings = Settings(**dict(settings))
    about = dict(given)
    for key, value in (settings.of_init if settings is not None else {}).items():
        about[key] = value if about[key] is None else about[key]
    variables = {
        "entity": "WANDB_ENTITY", "project": "WANDB_PROJECT", "dir": "WANDB_DIR", "id": "WANDB_RUN_ID",
        "name": "WANDB_NAME", "notes": "WANDB_NOTES", "tags": "WANDB_TAGS", "group": "WANDB_RUN_GROUP",
        "job_type": "WANDB_JOB_TYPE", "mode": "WANDB_MODE", "resume": "WANDB_RESUME",
    }  # fmt: skip
    for key, variable in variables.items():
        if about[key] is None and (value := os.environ.get(variable)):
            about[key] = value.split(",") if key == "tags" else value
    if os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true"):
        about["mode"] = "disabled"
    about["mode"] = {"dryrun": "offline", "run": "online"}.get(str(about["mode"]), about["mode"])
    for key, known in (("mode", _MODES), ("resume", _RESUMES)):
        if about[key] not in known:
            expected = ", ".join(map(repr, known))
            raise RunError(f"init: {key} is {about[key]!r}; expected one of {expected}")
    return about


def _opened(about: Mapping[str, Any]) -> tuple[JoinedRun, int]:
    """The run, and the first step of what is logged into it."""
    parts = [str(about["project"] or ""), str(about["id"] or about["name"] or "run")]
    folder = Path(about["dir"] or "runs").joinpath(*(part.replace("/", "-").strip(".") for part in parts if part))
    if not about["project"] and not about["id"] and not about["name"] and (named := os.environ.get("STEPSCOPE_RUN")):
        folder = Path(named)
    resume = about["resume"]
    there = (folder / MANIFEST).is_file()
    if resume == "must" and not there:
        raise NotARunError(f"init: resume is 'must', and {folder} holds no run")
    labels = [f"{key}:{about[key]}" for key in ("project", "group", "job_type") if about[key]]
    tags = [*(about["tags"] or ()), *labels]
    continues = resume in ("allow", "must", "auto", True)
    goes_on = continues and there
    joined = join_or_open(
        folder,
        sinks=_sinks(about),
        name=None if goes_on else about["name"],
        tags=None if goes_on else tags,
        resume=continues,
        exists="raise" if resume == "never" else "number",
    )
    if goes_on or joined.is_scripts:
        joined.run.describe(name=about["name"], tags=dict.fromkeys([*joined.run.info.tags, *tags]))
    return joined, _next_step(joined.run.path) if goes_on and not joined.is_scripts else 0


def _sinks(about: Mapping[str, Any]) -> list[Any]:
    if about["mode"] not in ("online", "offline", "shared"):
        return ["local"]
    options = {key: about[key] for key in ("project", "entity", "group", "name") if about[key]}
    mode = "offline" if about["mode"] == "offline" else "online"
    return [{"type": "wandb", "mode": mode, **options} | ({"run_id": about["id"]} if about["id"] else {})]


def _next_step(folder: Path) -> int:
    """The step after the last one of a run that is continued."""
    with closing(read_run(folder)) as record:
        last = last_step((info.name, info.last_step) for info in record.names(0))
    return 0 if last is None else last + 1
