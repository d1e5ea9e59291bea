"""Looks for runs at one place: a run, a folder that contains some, a pattern, or a URL of either."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tracker_adapters.errors import RunError
from tracker_adapters.remote.place import RemotePlace, is_url
from tracker_adapters.remote.sealed import INDEX

from stepscope.runs.folders import find_runs, places_named, readable, runs_at
from stepscope.runs.places import local_path


@dataclass(frozen=True, slots=True)
class Found:
    """The runs at a place, which of them the place names itself, or why it cannot be searched."""

    place: str
    runs: list[str | Path] = field(default_factory=list)
    named: list[str | Path] = field(default_factory=list)
    error: str = ""


def find(place: str, *, must_exist: bool = False) -> Found:
    """Returns the runs at a place.

    Args:
        place: A run's folder, a folder, a pattern, or a URL.
        must_exist: Whether a place with nothing is an error; a folder may be empty.

    Raises:
        RunError: With ``must_exist``, where there is nothing, or it cannot be reached.
    """
    try:
        return Found(readable(place), *_runs(place, must_exist=must_exist))
    except (RunError, OSError) as error:
        if must_exist:
            raise
        return Found(readable(place), error=str(error))


def _runs(place: str, *, must_exist: bool) -> tuple[list[str | Path], list[str | Path]]:
    """The runs at a place, and those of them that it names itself, not a folder above them."""
    local = local_path(place)
    if local is None:
        urls = _remote_runs(place, must_exist=must_exist)
        return [*urls], [url for url in urls if url == RemotePlace(place).url]
    if must_exist and not local.is_dir():
        find_runs([os.fspath(local) if is_url(place) else place])  # says what is wrong where there is none
    paths = [path.absolute() for path in places_named(os.fspath(local))]
    runs = [run for path in paths for run in runs_at(path)]
    return [*runs], [path for path in paths if path in runs]


def _remote_runs(url: str, *, must_exist: bool) -> list[str]:
    """The URLs of the runs at a URL; a run's own URL is not searched further."""
    place = RemotePlace(url)
    try:
        if place.read(INDEX) is not None:
            return [place.url]
        names = place.names()
    except RunError:
        raise
    except Exception as error:  # clients raise errors of their own
        raise RunError(f"cannot read {place.url}: {error or repr(error)}") from error
    found = [f"{place.url}/{name.removesuffix(f'/{INDEX}')}" for name in names if name.endswith(f"/{INDEX}")]
    if must_exist and not names:
        raise RunError(f"there is nothing at {place.url}; expected a run, or a folder that contains runs")
    return found
