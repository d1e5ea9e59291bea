"""Params and tags in requests that a server takes: at most 100 of them, and 1 MB."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tracker_adapters.sinks.mlflow.description import shortened

MAX_REQUEST_BYTES = 450_000
"""What entries take at most in a request, and metrics beside them: a server takes 1 MB."""
_LIMIT_OF_OLD_SERVERS = 250
_MAX_ENTRIES = 100

logger = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A param or tag."""

    what: Literal["param", "tag"]
    key: str
    value: str


def tag_entries(tags: Mapping[str, str]) -> list[Entry]:
    """Returns tags as entries."""
    return [Entry("tag", *item) for item in tags.items()]


def log_batch(client: Any, run_id: str, entries: Sequence[Entry], metrics: Sequence[Any] = ()) -> None:
    """Logs entries and metrics in one request; the client makes two where they are more than 1000 together."""
    from mlflow.entities import Param, RunTag

    params = [Param(key, value) for what, key, value in entries if what == "param"]
    tags = [RunTag(key, value) for what, key, value in entries if what == "tag"]
    client.log_batch(run_id, metrics=metrics, params=params, tags=tags, synchronous=True)


def requests_of(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yields entries in groups that fit into one request."""
    request: list[Entry] = []
    size = 0
    for entry in entries:
        bytes_needed = len(json.dumps(entry))  # MLflow's client sends ASCII, and escapes the rest
        if request and (len(request) == _MAX_ENTRIES or size + bytes_needed > MAX_REQUEST_BYTES):
            yield request
            request, size = [], 0
        request.append(entry)
        size += bytes_needed
    if request:
        yield request


def send_entries(entries: Iterable[Entry], send: Callable[[Sequence[Entry]], object]) -> None:
    """Sends params and tags, whatever limits the server has.

    An entry that is refused is sent once more, cut to what the oldest servers take; if it is refused again, it is
    left out with a warning, so that one bad entry does not keep a run from being shown.

    Args:
        entries: Params and tags.
        send: Makes one request.
    """
    for request in requests_of(entries):
        _send_or_split(request, send)


def _send_or_split(entries: Sequence[Entry], send: Callable[[Sequence[Entry]], object]) -> None:
    from mlflow.exceptions import MlflowException

    try:
        send(entries)
    except MlflowException as error:
        if error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        if len(entries) > 1:
            middle = len(entries) // 2
            for half in (entries[:middle], entries[middle:]):
                _send_or_split(half, send)
            return
        [entry] = entries
        if len(entry.value) > _LIMIT_OF_OLD_SERVERS:
            _send_or_split([entry._replace(value=shortened(entry.value, _LIMIT_OF_OLD_SERVERS))], send)
        else:
            logger.warning("MLflow refuses the %s %r, which is omitted: %s", entry.what, entry.key, error)
