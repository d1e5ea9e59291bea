"""Objects at a run's place that its index may not list: half-made by a copy that was killed, or replaced since."""

import contextlib
import json
from collections.abc import Set
from pathlib import Path

from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.safe_files import make_folders, open_file, read_file, remove_file
from tracker_adapters.store.layout import PRIVATE

_PATH = f"{PRIVATE}/leftovers.jsonl"


class Leftovers:
    """Each object is noted in the local copy before it is made or left out, and removed when no index needs it."""

    def __init__(self, folder: Path) -> None:
        """Reads what a process before this one has noted."""
        self._folder = folder
        self._keys: set[str] = set()
        with contextlib.suppress(FileNotFoundError):
            for line in read_file(folder, _PATH).decode(errors="replace").splitlines():
                with contextlib.suppress(ValueError, RecursionError):  # the last line of a process that was killed
                    self._keys.add(str(json.loads(line)))

    @property
    def pending(self) -> bool:
        """Whether an object was noted that may have to be removed."""
        return bool(self._keys)

    def note(self, key: str) -> None:
        """Remembers an object, also for a process after this one."""
        if key not in self._keys:
            self._keys.add(key)
            self._folder.mkdir(parents=True, exist_ok=True)
            make_folders(self._folder, PRIVATE)
            with open_file(self._folder, _PATH, "ab") as stream:
                stream.write(f"{json.dumps(key)}\n".encode())

    def remove(self, place: RemotePlace, listed: Set[str]) -> None:
        """Removes what was noted and is not listed; call it when an index that lists just these has been written."""
        if not self._keys:
            return
        for key in sorted(self._keys - listed):
            place.remove(key)
        remove_file(self._folder, _PATH, missing_ok=True)
        self._keys.clear()

    @staticmethod
    def forget(folder: Path) -> None:
        """Drops what was noted, for a folder that gets another place."""
        remove_file(folder, _PATH, missing_ok=True)
