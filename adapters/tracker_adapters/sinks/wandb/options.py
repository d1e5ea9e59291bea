"""Where a run goes in W&B: options, environment and the user's active run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracker_adapters.sink import SinkConfigError, checked_options
from tracker_adapters.sinks.wandb.keys import LONGEST_RUN_ID

_ENVIRONMENT = {
    "target": "WANDB_DIR",
    "project": "WANDB_PROJECT",
    "entity": "WANDB_ENTITY",
    "group": "WANDB_RUN_GROUP",
    "name": "WANDB_NAME",
    "mode": "WANDB_MODE",
    "tags": "WANDB_TAGS",
    "run_id": "WANDB_RUN_ID",
}
_RESERVED_IN_PROJECT = "/\\#?%:"
_RESERVED_IN_RUN_ID = ":;,#?/'"


def resolve(options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
    """Completes the options of the W&B sink; see ``WandbSink`` for their meaning.

    Raises:
        SinkConfigError: For an unknown option or a value that W&B refuses.
    """
    allowed = dict.fromkeys(_ENVIRONMENT, str) | {"tags": list}
    given = checked_options("wandb", options, allowed)
    active = _active_run()
    resolved: dict[str, Any] = {}
    for option, variable in _ENVIRONMENT.items():
        value = given.get(option) or active.get(option) or os.environ.get(variable)
        if option == "run_id" and option not in given and value == active.get("id"):
            continue
        if value:
            resolved[option] = value
    if isinstance(resolved.get("tags"), str):
        resolved["tags"] = [tag for tag in resolved["tags"].split(",") if tag]
    if not all(isinstance(tag, str) for tag in resolved.get("tags", ())):
        raise SinkConfigError(f"sink 'wandb': tags are {resolved['tags']!r}; expected a list of str")
    resolved["target"] = str(Path(resolved.get("target", run_folder)).expanduser().absolute())
    resolved["mode"] = _mode(resolved.get("mode", "offline"))
    resolved.setdefault("project", "stepscope")
    _refuse("project", resolved["project"], _RESERVED_IN_PROJECT, 128)
    _refuse("run_id", resolved.get("run_id", ""), _RESERVED_IN_RUN_ID, LONGEST_RUN_ID)
    return resolved


def _active_run() -> dict[str, str]:
    """Where the user's own active run is: ours goes beside it, into its group."""
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is None:
        return {}
    place = {"id": run.id, "project": run.project, "entity": run.entity, "group": run.group or run.id}
    return {option: value for option, value in place.items() if value}


def _mode(mode: str) -> str:
    mode = {"dryrun": "offline", "run": "online"}.get(mode, mode)
    if mode not in ("offline", "online"):
        raise SinkConfigError(
            f"sink 'wandb': mode is {mode!r}; expected offline or online (leave the sink out to disable it)"
        )
    return mode


def _refuse(option: str, value: str, reserved: str, longest: int) -> None:
    if len(value) > longest or any(character in reserved for character in value):
        raise SinkConfigError(
            f"sink 'wandb': {option} is {value!r}; expected at most {longest} characters and none of {reserved}"
        )
