"""Files that a script saves: those of ``save``, and what it writes into the run's folder ``files``."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError


class SavedFiles:
    """Records files when they are saved, and again at the end those that have changed by then.

    Attributes:
        folder: What is in it at the end is recorded.
    """

    def __init__(self, emitter: Emitter | None, folder: Path) -> None:
        """Without an emitter nothing is recorded."""
        self._emitter, self.folder = emitter, folder
        self._saved: dict[Path, tuple[str, float]] = {}

    def save(
        self,
        pattern: str | os.PathLike[str],
        base: str | os.PathLike[str] | None,
        policy: str,
        step: int,
        *,
        globs: bool,
    ) -> list[str]:
        """Records the files of a pattern as ``files/<name>``; see ``Run.save``."""
        if policy not in ("live", "now", "end"):
            raise ArtifactError(f"save: policy is {policy!r}; expected live, now or end")
        matches = glob.glob(os.fspath(pattern), recursive=True) if globs else [os.fspath(pattern)]  # noqa: PTH207
        found = [path for path in map(Path, sorted(matches)) if path.is_file()]
        for path in found:
            name = path.name if base is None else Path(os.path.relpath(path, base)).as_posix()
            self._saved[path.absolute()] = (name, 0.0 if policy == "end" else path.stat().st_mtime)
            if policy != "end":
                self._put(path, name, step)
        return [str(path) for path in found]

    def end(self, step: int) -> None:
        """Records what has changed since it was saved, and what lies in the folder."""
        for path, (name, recorded) in self._saved.items():
            if path.is_file() and path.stat().st_mtime != recorded:
                self._put(path, name, step)
        for path in sorted(self.folder.rglob("*")) if self._emitter is not None and self.folder.is_dir() else ():
            if path.is_file() and path.absolute() not in self._saved:
                self._put(path, path.relative_to(self.folder).as_posix(), step)

    def _put(self, path: Path, name: str, step: int) -> None:
        if self._emitter is not None:
            self._emitter.file(path, name=f"files/{name}", step=step)
