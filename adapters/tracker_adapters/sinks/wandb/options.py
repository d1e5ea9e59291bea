"""Where a run goes in W&B: options, environment and the user's active run."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

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
_RESERVED = {"project": ("/\\#?%:", 128), "run_id": (":;,#?/'", LONGEST_RUN_ID)}
"""Which characters W&B refuses in an option, and beyond which length."""


def resolve(options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
    """Completes the options of the W&B sink; see ``WandbSink`` for their meaning.

    Raises:
        SinkConfigError: For an unknown option or a value that W&B refuses.
    """
    allowed = dict.fromkeys(_ENVIRONMENT, str) | {"tags": Annotated[list[str], Meta(description="a list of str")]}
    given = checked_options("wandb", options, allowed)
    resolved, shown = _found(given)
    if tags := resolved.get("tags"):
        tags = tags.split(",") if isinstance(tags, str) else tags
        resolved["tags"] = [_as_text(tag) for tag in tags if tag]
    resolved["target"] = str(Path(resolved.get("target", run_folder)).expanduser().absolute())
    mode = resolved.get("mode", "offline")
    resolved["mode"] = {"dryrun": "offline", "run": "online"}.get(mode, mode)
    resolved.setdefault("project", "stepscope")
    for option, expected in _refused(resolved):
        raise SinkConfigError(f"sink 'wandb': {option} is {shown[option]}; expected {expected}")
    return resolved


def _found(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns each option's value, and how a message shows it: with the variable that it comes from."""
    active = _active_run()
    values: dict[str, Any] = {}
    shown: dict[str, str] = {}
    for option, variable in _ENVIRONMENT.items():
        known = given.get(option) or active.get(option)
        value = known or os.environ.get(variable)
        if option == "run_id" and option not in given and value == active.get("id"):
            continue
        if value:
            values[option] = _as_text(value) if isinstance(value, str) and option != "target" else value
            shown[option] = repr(value) if known else f"{value!r}, from {variable}"
    return values, shown


def _refused(resolved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the options that W&B refuses, and what it expects."""
    if resolved["mode"] not in ("offline", "online"):
        yield "mode", "offline or online (leave the sink out to disable it)"
    for option, (reserved, longest) in _RESERVED.items():
        value = resolved.get(option, "")
        if len(value) > longest or any(character in reserved for character in value):
            yield option, f"at most {longest} characters and none of {reserved}"
    run_id = resolved.get("run_id", "")
    if not run_id.isprintable() or run_id != run_id.strip():  # it names a folder
        yield "run_id", "printable characters, with no space around them"


def _active_run() -> dict[str, str]:
    """Where the user's own active run is: ours goes beside it, into its group."""
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is None:
        return {}
    place = {"id": run.id, "project": run.project, "entity": run.entity, "group": run.group or run.id}
    return {option: value for option, value in place.items() if value}


def _as_text(value: str) -> str:
    """Returns a text as UTF-8 can hold it: bytes of the environment that are no text are escaped."""
    return value.encode(errors="backslashreplace").decode()
