"""Finds what a folder holds, and makes a run of each part."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from tracker_adapters.store.layout import MANIFEST

from stepscope.importing.event_files import import_event_files, is_event_file
from stepscope.importing.new_run import check_free, new_run
from stepscope.importing.skipped import ImportingError, Skipped


@dataclass(frozen=True, slots=True)
class Imported:
    """One imported run: its folder, where it came from, its artifacts by kind, and what was omitted."""

    run: Path
    source: Path
    counts: dict[str, int]
    skipped: Skipped


@dataclass(slots=True)
class _Source:
    """The files that belong to one run."""

    root: Path
    event_files: list[Path] = field(default_factory=list)
    links_out: list[Path] = field(default_factory=list)
    page_folders: list[Path] = field(default_factory=list)


def import_runs(
    source: str | PathLike[str],
    output: str | PathLike[str] = "runs",
    *,
    progress: Callable[[Path], None] | None = None,
) -> list[Imported]:
    """Makes runs of TensorBoard's event files and of folders of pages; the source is only read.

    Each folder with event files becomes a run, as in TensorBoard, and so does each folder that holds pages, in
    folders such as ``epoch_4/debugger``; both in one folder are one run. Links to folders, to pages, and out of
    ``source`` are not followed. The run of ``source`` itself is called like
    it, that of ``source/a/b`` is called ``a-b``. Nothing in the files is executed. What cannot be imported is left
    out and counted by reason.

    Args:
        source: The folder.
        output: The folder for the runs, made when it does not exist. A run that is there is never added to.
        progress: Called with each folder before it is read.

    Raises:
        ImportingError: When the source is no folder, is a run, or holds nothing that can be imported.
        RunExistsError: When there is something where a run would be made; then nothing is imported.
        RunError: When a run cannot be written.
        MissingPackageError: When tensorboard is not installed and there are event files.
    """
    folder = Path(source).absolute()
    sources = _sources(folder)
    targets = _targets(folder, sources, Path(output).absolute())
    for target in targets:
        check_free(target)
    imported = []
    for one, target in zip(sources, targets, strict=True):
        if progress is not None:
            progress(one.root)
        imported.append(_import(one, target))
    return imported


def _import(source: _Source, target: Path) -> Imported:
    skipped = Skipped()
    for path in source.links_out:
        skipped.add("a link that leads out of the folder", str(path))
    with new_run(target, target.name) as run:
        if source.event_files:
            import_event_files(source.event_files, run, skipped)
        if source.page_folders:
            from stepscope.importing.page_folders import import_page_folders

            import_page_folders(source.root, source.page_folders, run, skipped)
        counts = dict(sorted(run.counts.items()))
    return Imported(target, source.root, counts, skipped)


def _sources(folder: Path) -> list[_Source]:
    from stepscope.importing.page_folders import EPOCH, PAGE

    if not folder.is_dir():
        raise ImportingError(f"{folder} is not a folder; expected one with event files or pages")
    if (folder / MANIFEST).is_file():
        raise ImportingError(f"{folder} is a run already, which stepscope reads without an import")
    found: dict[Path, _Source] = {}
    for place, subfolders, files in os.walk(folder):
        here = Path(place)
        subfolders[:] = sorted(
            name for name in subfolders if not name.startswith(".") and not (here / name / MANIFEST).is_file()
        )
        events = [here / name for name in files if is_event_file(name) and (here / name).is_file()]
        if events:
            one = found.setdefault(here, _Source(here))
            for event_file in events:
                inside = event_file.resolve().is_relative_to(folder.resolve())
                (one.event_files if inside else one.links_out).append(event_file)
        if any(PAGE.fullmatch(name) for name in files):
            epochs = [
                parent
                for parent in (here, *here.parents)
                if parent.is_relative_to(folder) and EPOCH.fullmatch(parent.name)
            ]
            root = epochs[-1].parent if epochs and epochs[-1] != folder else here
            found.setdefault(root, _Source(root)).page_folders.append(here)
    if not found:
        raise ImportingError(
            f"{folder} holds nothing to import; expected event files (*tfevents*) or pages (page_<n>.pkl)"
        )
    return [found[root] for root in sorted(found)]


def _targets(folder: Path, sources: list[_Source], output: Path) -> list[Path]:
    targets: list[Path] = []
    for source in sources:
        base = "-".join(source.root.relative_to(folder).parts) or folder.name or "imported"
        name, number = base, 1
        while output / name in targets:
            number += 1
            name = f"{base}-{number}"
        targets.append(output / name)
    return targets
