"""The calls of W&B that training scripts use, recorded in a stepscope run.

::

    import stepscope.compat.wandb as wandb

The module needs neither W&B nor its service. A call that is not here raises UnsupportedCallError, an AttributeError
that names what there is.
"""

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.compat.errors import UnsupportedCallError, missing
from stepscope.compat.wandb import opening, plot
from stepscope.compat.wandb.artifact import Artifact
from stepscope.compat.wandb.data_types import Audio, Histogram, Html, Image, Table, Video
from stepscope.compat.wandb.logged_run import Run
from stepscope.compat.wandb.opening import init
from stepscope.compat.wandb.run_config import Config
from stepscope.compat.wandb.run_summary import Metric, Summary
from stepscope.compat.wandb.settings import Settings


class AlertLevel(enum.Enum):
    """How urgent an alert is."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
    """Records values in the run; see ``Run.log``."""
    _run("log").log(data, step, commit)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """Ends the run, if there is one; see ``Run.finish``."""
    if (run := opening.current()) is not None:
        run.finish(exit_code)


def watch(
    models: Any,
    criterion: Any = None,
    log: Any = "gradients",
    log_freq: int = 1000,
    idx: int | None = None,
    log_graph: bool = False,
) -> None:
    """Watches the trainings of models; see ``Run.watch``."""
    _run("watch").watch(models, criterion, log, log_freq, idx, log_graph)


def unwatch(models: Any = None) -> None:
    """Ends what ``watch`` began."""
    _run("unwatch").unwatch(models)


def alert(title: str, text: str, level: Any = None, wait_duration: Any = None) -> None:
    """Records an alert; see ``Run.alert``."""
    _run("alert").alert(title, text, level, wait_duration)


def define_metric(
    name: str,
    step_metric: str | Metric | None = None,
    step_sync: bool | None = None,
    hidden: bool | None = None,
    summary: str | None = None,
    overwrite: bool | None = None,
) -> Metric:
    """Says how a name is summed up; see ``Run.define_metric``."""
    return _run("define_metric").define_metric(name, step_metric, step_sync, hidden, summary, overwrite)


def save(
    glob_str: str | os.PathLike[str],
    base_path: str | os.PathLike[str] | None = None,
    policy: str = "live",
    glob: bool = True,
) -> list[str]:
    """Records files; see ``Run.save``."""
    return _run("save").save(glob_str, base_path, policy, glob)


def log_artifact(
    artifact_or_path: Artifact | str | os.PathLike[str],
    name: str | None = None,
    type: str | None = None,
    aliases: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Artifact:
    """Records an artifact; see ``Run.log_artifact``."""
    return _run("log_artifact").log_artifact(artifact_or_path, name, type, aliases, tags)


def login(
    key: str | None = None,
    relogin: bool | None = None,
    host: str | None = None,
    force: bool | None = None,
    timeout: int | None = None,
    verify: bool = True,
    referrer: str | None = None,
    prompt: bool = True,
    anonymous: Any = None,
) -> bool:
    """Returns True: nobody is asked. A W&B sink that uploads takes its key from ``WANDB_API_KEY``."""
    return True


def _run(call: str) -> Run:
    run = opening.current()
    if run is None:
        raise UnsupportedCallError(f"wandb.{call} was called before wandb.init; expected init first")
    return run


def __getattr__(name: str) -> Any:
    if name == "run":
        return opening.current()
    if name in ("config", "summary"):
        return getattr(_run(name), name)
    raise missing(__name__, name, __all__)


def __dir__() -> list[str]:
    return [*__all__, "config", "run", "summary"]


__all__ = [
    "AlertLevel",
    "Artifact",
    "Audio",
    "Config",
    "Histogram",
    "Html",
    "Image",
    "Run",
    "Settings",
    "Summary",
    "Table",
    "UnsupportedCallError",
    "Video",
    "alert",
    "define_metric",
    "finish",
    "init",
    "log",
    "log_artifact",
    "login",
    "plot",
    "save",
    "unwatch",
    "watch",
]
