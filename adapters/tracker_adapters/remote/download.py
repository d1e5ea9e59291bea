"""Copies a run from its place to this machine; what arrives is checked against the index."""

import json
from collections.abc import Callable
from pathlib import Path

from tracker_adapters.artifacts import sha256_of
from tracker_adapters.atomic_files import atomic_path, write_atomically
from tracker_adapters.errors import NotARunError, RunError
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.sealed import SealedFile, SealedIndex, find_index
from tracker_adapters.store.layout import MANIFEST

TRIES = 3


class Download:
    """One run at a place, and the folder into which its files are copied when they are needed."""

    def __init__(self, place: RemotePlace, folder: Path, index: SealedIndex | None = None) -> None:
        """Reads the index and writes ``run.json``.

        Raises:
            NotARunError: When there is no run.
            RunError: When the place cannot be reached.
        """
        self.place = place
        self.folder = folder
        found = index or find_index(place)
        if found is None:
            raise NotARunError(f"{place.url} holds no stepscope run")
        self.index = found
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder, MANIFEST, json.dumps(self.index.manifest).encode(), sync="nothing")

    def fetch(self, wanted: Callable[[str], bool] = lambda path: True) -> None:
        """Copies the files that are wanted, by their paths in the run, and are not here yet, whole.

        Raises:
            RunError: When one cannot be copied, or its checksum is not the one in the index.
        """
        for relative, entry in sorted(self.index.files.items()):
            target = self.folder / relative
            if wanted(relative) and not _is_whole(target, entry):
                self._fetch_one(relative, entry, target)

    def _fetch_one(self, relative: str, entry: SealedFile, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        reason = ""
        for _ in range(TRIES):
            try:
                with atomic_path(self.folder, relative, sync="nothing") as path:
                    self._copy(entry, path)
            except Exception as error:  # clients raise errors of their own
                reason = f"{type(error).__name__}: {error}"
            else:
                return
        raise RunError(f"cannot copy {self.place.url}/{relative} after {TRIES} tries: {reason}")

    def _copy(self, entry: SealedFile, path: Path) -> None:
        self.place.download(entry.key, path)
        if self.place.replaces_in_place:  # a newer whole file may be there before the index says so
            return
        if (found := sha256_of(path)) != entry.sha256:
            raise RunError(f"its SHA-256 is {found}; expected {entry.sha256}")


def _is_whole(path: Path, entry: SealedFile) -> bool:
    return path.is_file() and path.stat().st_size == entry.size and sha256_of(path) == entry.sha256
