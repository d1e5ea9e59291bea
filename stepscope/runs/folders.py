"""Finds the runs that a user means: folders of runs, patterns of them, and folders that contain some."""

import glob
import os
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from tracker_adapters.errors import NotARunError
from tracker_adapters.remote.place import is_url
from tracker_adapters.store.layout import MANIFEST

from stepscope.runs.places import fetch_run

_MOST_NEIGHBOURS = 10_000


def find_runs(given: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Returns the folders of the runs, absolute and each once, in the order in which they are named.

    Args:
        given: Each a run's folder, its URL (the run is downloaded), or a folder that contains runs at any depth (these
            in the order of their paths), or a pattern as in a shell, where ``**`` stands for any folders; a pattern is
            used only where no folder has that very name.

    Raises:
        NotARunError: When there is no run at one of them. Of several, what is there and holds no run is passed over, as
            long as one does: a shell makes of ``runs/*`` also the files between runs.
    """
    if isinstance(given, (str, os.PathLike)):
        given = [given]
    found: dict[str, Path] = {}
    passed: list[str | os.PathLike[str]] = []
    for place in given:
        runs = [run for path in _expanded(os.fspath(place)) for run in runs_at(path)]
        if not runs and len(given) > 1 and os.path.lexists(place):
            passed.append(place)
        elif not runs:
            what = "contains no run" if Path(place).is_dir() else f"is not a folder{_nearest(os.fspath(place))}"
            raise NotARunError(
                f"{place} {what}; expected a run's folder, a folder that contains runs, or a pattern of such folders"
            )
        for run in runs:
            found.setdefault(os.path.realpath(run), run)
    if passed and not found:
        raise NotARunError(f"there is no run at {', '.join(map(str, passed))}; expected the folders of runs")
    return list(found.values())


def run_labels(runs: Sequence[Path]) -> list[str]:
    """Returns a short name for each run: its folder's, or, where two are the same, the path from where they part."""
    labels = [readable(run.name) for run in runs]
    if len(set(labels)) == len(labels):
        return labels
    common = os.path.commonpath([str(run) for run in runs])
    return [readable(os.path.relpath(run, common)) for run in runs]


def readable(path: str | os.PathLike[str]) -> str:
    """Returns a path as text that can be encoded: what is no UTF-8 in it becomes U+FFFD."""
    return os.fsencode(path).decode(errors="replace")


def places_named(place: str) -> list[Path]:
    """Returns the paths that a place on this machine stands for: itself, or, where it is a pattern, its matches."""
    place = os.path.expanduser(place)  # noqa: PTH111 - may be a pattern
    path = Path(place)
    if not path.exists() and glob.has_magic(place):
        return [Path(match) for match in sorted(glob.glob(place, recursive=True))]  # noqa: PTH207
    return [path]


def runs_at(path: Path) -> list[Path]:
    """Returns the run in a folder, or those in the folders below it, by path; links below it are not followed."""
    path = path.absolute()
    if (path / MANIFEST).is_file():
        return [path]
    runs = []
    for folder, subfolders, files in os.walk(path):
        if MANIFEST in files:
            runs.append(Path(folder))
            subfolders.clear()
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
    return runs


def _nearest(place: str) -> str:
    """Says which folders beside a missing one have nearly its name; nothing where none has."""
    path = Path(place).expanduser()
    names: list[str] = []
    with suppress(OSError):
        names = [entry.name for entry in islice(os.scandir(path.parent), _MOST_NEIGHBOURS) if entry.is_dir()]
    near = get_close_matches(path.name, names)
    return f" (nearest: {', '.join(readable(path.parent / name) for name in near)})" if near else ""


def _expanded(place: str) -> list[Path]:
    return [fetch_run(place)] if is_url(place) else places_named(place)
