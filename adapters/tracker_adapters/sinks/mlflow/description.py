"""A run's configuration and tags as MLflow's params and tags."""

import contextlib
import getpass
import os

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.sink import SCRIPT_VARIABLE, redact
from tracker_adapters.sinks.mlflow.names import metric_key

MAX_TAG_LENGTH = 8000
MAX_RUN_NAME_LENGTH = 250
_MAX_PARAM_LENGTH = 6000


def params_of(info: RunInfo) -> dict[str, str]:
    """Returns a run's configuration as params, under the keys that MLflow takes."""
    return {
        metric_key(name): shortened(str(value), _MAX_PARAM_LENGTH) for name, value in info.flat_config().items() if name
    }


def tags_of(info: RunInfo) -> dict[str, str]:
    """Returns a run's tags, each as a tag of its own."""
    return {metric_key(f"stepscope.tag.{tag}"): shortened(tag, MAX_TAG_LENGTH) for tag in info.tags}


def origin_tags(info: RunInfo) -> dict[str, str]:
    """Returns who trained and with what, where MLflow's pages look for it: its columns User, Source and Version.

    What else is known of the environment are tags of their own, except for lists such as that of the packages.
    The script comes from the environment, since this is no process of the training's.
    """
    tags = {"mlflow.source.type": "LOCAL"}
    if (script := os.environ.get(SCRIPT_VARIABLE, "")) not in ("", "-c", "-m"):
        tags["mlflow.source.name"] = shortened(redact(script), MAX_TAG_LENGTH)
    if commit := info.environment.get("commit"):
        tags["mlflow.source.git.commit"] = shortened(commit, MAX_TAG_LENGTH)
    for name, value in info.environment.items():
        if "\n" not in value:
            tags[metric_key(f"stepscope.environment.{name}")] = shortened(value, MAX_TAG_LENGTH)
    with contextlib.suppress(OSError, KeyError):  # a user without a name, as in containers
        tags["mlflow.user"] = getpass.getuser()
    return tags


def shortened(text: str, limit: int) -> str:
    """Returns ``text`` as databases take it: without NUL characters, and cut to ``limit`` with a note of its length."""
    text = text.replace("\0", "\\0")  # PostgreSQL refuses the whole text
    if len(text) <= limit:
        return text
    note = f" … ({len(text)} characters)"
    return text[: limit - len(note)] + note
