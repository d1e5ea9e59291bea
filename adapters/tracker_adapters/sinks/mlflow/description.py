"""A run's configuration and tags as MLflow's params and tags, whatever limits the server has."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.sinks.mlflow.names import metric_key

MAX_TAG_LENGTH = 8000
MAX_RUN_NAME_LENGTH = 250
_MAX_PARAM_LENGTH = 6000
_LIMIT_OF_OLD_SERVERS = 250
_MAX_ENTRIES = 100
_MAX_REQUEST_BYTES = 500_000

Entries: TypeAlias = Mapping[str, str]

logger = logging.getLogger(__name__)


def params_of(info: RunInfo) -> dict[str, str]:
    """Returns a run's configuration as params, under the keys that MLflow takes."""
    return {
        metric_key(name): shortened(str(value), _MAX_PARAM_LENGTH) for name, value in info.flat_config().items() if name
    }


def tags_of(info: RunInfo) -> dict[str, str]:
    """Returns a run's tags, each as a tag of its own."""
    return {metric_key(f"stepscope.tag.{tag}"): shortened(tag, MAX_TAG_LENGTH) for tag in info.tags}


def send_entries(what: str, entries: Entries, send: Callable[[Entries], object]) -> None:
    """Sends params or tags in requests that a server takes (at most 100 entries, 1 MB).

    An entry that is refused is sent once more, cut to what the oldest servers take; if it is refused again, it is
    left out with a warning, so that one bad entry does not keep a run from being shown.

    Args:
        what: For the warning: ``param`` or ``tag``.
        entries: Values by key.
        send: Makes one request.
    """
    for request in _requests(entries):
        _send_or_split(what, request, send)


def shortened(text: str, limit: int) -> str:
    """Returns ``text`` as databases take it: without NUL characters, and cut to ``limit`` with a note of its length."""
    text = text.replace("\0", "\\0")  # PostgreSQL refuses the whole text
    if len(text) <= limit:
        return text
    note = f" … ({len(text)} characters)"
    return text[: limit - len(note)] + note


def _requests(entries: Entries) -> Iterator[dict[str, str]]:
    request: dict[str, str] = {}
    size = 0
    for key, value in entries.items():
        bytes_needed = len(json.dumps([key, value]))  # MLflow's client sends ASCII, and escapes the rest
        if request and (len(request) == _MAX_ENTRIES or size + bytes_needed > _MAX_REQUEST_BYTES):
            yield request
            request, size = {}, 0
        request[key] = value
        size += bytes_needed
    if request:
        yield request


def _send_or_split(what: str, entries: Entries, send: Callable[[Entries], object]) -> None:
    from mlflow.exceptions import MlflowException

    try:
        send(entries)
    except MlflowException as error:
        if error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        if len(entries) > 1:
            for half in _halves(list(entries.items())):
                _send_or_split(what, half, send)
            return
        [(key, value)] = entries.items()
        if len(value) > _LIMIT_OF_OLD_SERVERS:
            _send_or_split(what, {key: shortened(value, _LIMIT_OF_OLD_SERVERS)}, send)
        else:
            logger.warning("MLflow refuses the %s %r and is not shown it: %s", what, key, error)


def _halves(items: Sequence[tuple[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    middle = len(items) // 2
    return dict(items[:middle]), dict(items[middle:])
