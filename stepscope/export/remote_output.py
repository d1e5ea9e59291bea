"""An export at a URL: written on this machine, then copied, its manifest last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from tracker_adapters.remote.place import RemotePlace, is_url

from stepscope.export.output import MANIFEST, OutputFolder, output_folder
from stepscope.export.selection import ExportError


@contextmanager
def output_at(target: str | PathLike[str], *, overwrite: bool) -> Iterator[OutputFolder]:
    """Yields the folder to fill, which is at a path or URL at the end of the block.

    What is at a URL is an export only when its ``export.json`` is there; it comes last.

    Args:
        target: The export's folder, or any URL that fsspec knows.
        overwrite: Whether an export that is there is replaced.

    Raises:
        ExportError: When something is there that is not to be replaced, or it cannot be written.
        MissingPackageError: When a package that the URL needs is not installed.
    """
    if not is_url(target):
        with output_folder(Path(target), overwrite=overwrite) as folder:
            yield folder
        return
    place = RemotePlace(str(target))
    place.check_writable()
    there = place.names()
    if there and not (overwrite and MANIFEST in there):
        raise ExportError(f"{place.url} holds {there[0]!r}; choose another place, or overwrite an export there")
    with TemporaryDirectory(prefix="stepscope-export-") as temporary:
        local = Path(temporary, "export")
        with output_folder(local, overwrite=False) as folder:
            yield folder
        try:
            _copy(local, place, there)
        except Exception as error:  # clients raise errors of their own
            raise ExportError(f"cannot copy the export to {place.url}: {error or repr(error)}") from error


def _copy(local: Path, place: RemotePlace, there: list[str]) -> None:
    place.remove(MANIFEST)
    names = [path.relative_to(local).as_posix() for path in sorted(local.rglob("*")) if path.is_file()]
    for name in sorted(names, key=lambda name: (name == MANIFEST, name)):
        place.upload(local / name, name)
    for name in set(there).difference(names):
        place.remove(name)
