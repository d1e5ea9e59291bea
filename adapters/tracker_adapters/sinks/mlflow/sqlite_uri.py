"""The tracking URI of a SQLite database, and the path in it."""

import contextlib
import functools
import os
import re
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote

from tracker_adapters.errors import SinkConfigError

_SCHEME = re.compile(r"sqlite(\+\w+)?:///")


def sqlite_uri(path: Path) -> str:
    """Returns the URI that leads MLflow to a database file, whatever characters its path has.

    Raises:
        SinkConfigError: For a path with a question mark, where SQLAlchemy cannot be told of one.
    """
    text = str(path)
    if _is_decoded():
        return "sqlite:///" + text.replace("%", "%25").replace("?", "%3F")
    if "?" in text:
        raise SinkConfigError(
            f"sink 'mlflow': the path of its database is {text!r}; expected one without '?', which SQLAlchemy before "
            "2.1 takes for the end of a path: name another target, or install sqlalchemy>=2.1"
        )
    return "sqlite:///" + text


def sqlite_path(uri: str) -> Path | None:
    """Returns the path in a URI; None for another database, one in memory, and SQLite's own ``file:`` URIs."""
    if (scheme := _SCHEME.match(uri)) is None:
        return None
    text = uri[scheme.end() :].partition("?")[0]
    if not text or text.startswith((":memory:", "file:")):
        return None
    return Path(unquote(text) if _is_decoded() else text)


def remove_misread_folder(uri: str) -> None:
    """Removes the empty folders that MLflow makes for an encoded path, which it reads as it stands in the URI."""
    path, text = sqlite_path(uri), _SCHEME.sub("", uri)
    if path is not None and str(path) != text.partition("?")[0]:
        with contextlib.suppress(OSError):
            os.removedirs(os.path.dirname(text))  # noqa: PTH120


@functools.cache
def _is_decoded() -> bool:
    """Whether SQLAlchemy decodes percent signs in the path of a URL; told by its version, without importing it."""
    try:
        major, minor = re.findall(r"\d+", metadata.version("sqlalchemy"))[:2]
    except metadata.PackageNotFoundError:
        return True
    return (int(major), int(minor)) >= (2, 1)
