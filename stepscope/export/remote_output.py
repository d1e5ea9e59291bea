"""An export at a URL: written on this machine, then copied, its manifest last.

There the manifest also has ``files``: the size and SHA-256 of each file, so that a copy can be checked.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import sha256_of
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.remote.place import RemotePlace, is_url

from stepscope.export.output import MANIFEST, OutputFolder, output_folder
from stepscope.export.selection import ExportError

RETRY_AFTER_S = (0.5, 2.0, 5.0)
"""How long to wait before each further try to copy a file."""


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
    with TemporaryFolder("stepscope-export-") as temporary:
        local = temporary.path / "export"
        with output_folder(local, overwrite=False) as folder:
            yield folder
        try:
            _copy(local, place, there)
        except Exception as error:  # clients raise errors of their own
            raise ExportError(f"cannot copy the export to {place.url}: {error or repr(error)}") from error


def _copy(local: Path, place: RemotePlace, there: list[str]) -> None:
    _tried(place.remove, MANIFEST)
    paths = [path for path in sorted(local.rglob("*")) if path.is_file() and path != local / MANIFEST]
    files = {}
    for path in paths:
        name = path.relative_to(local).as_posix()
        files[name] = {"size": path.stat().st_size, "sha256": sha256_of(path)}
        _tried(place.upload, path, name)
    manifest = json.loads((local / MANIFEST).read_bytes()) | {"files": files}
    (local / MANIFEST).write_bytes(json.dumps(manifest, indent=2, ensure_ascii=False).encode())
    _tried(place.upload, local / MANIFEST, MANIFEST)
    for name in set(there).difference(files, [MANIFEST]):
        _tried(place.remove, name)


def _tried(action: Callable[..., None], *arguments: Any) -> None:
    for wait_s in RETRY_AFTER_S:
        try:
            action(*arguments)
        except Exception:  # clients raise errors of their own
            time.sleep(wait_s)
        else:
            return
    action(*arguments)
