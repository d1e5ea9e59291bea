"""What a run says of itself, and whether it says something else than it did."""

from pathlib import Path

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.store.layout import MANIFEST
from tracker_adapters.store.manifest import load_manifest


class Description:
    """Reads a run's description, and tells when it has changed: a live run may get a configuration after its start."""

    def __init__(self, run_folder: Path, rank: int) -> None:
        self._run_folder, self._rank = run_folder, rank
        self._stamp: object = None
        self._told: object = None

    def now(self) -> RunInfo:
        """Returns what the run says now."""
        self._stamp = self._stamp_now()
        info = load_manifest(self._run_folder).info_of(self._rank)
        self._told = _described(info)
        return info

    def news(self) -> RunInfo | None:
        """Returns what the run says, if its name, configuration, tags or environment differ from what was returned."""
        told = self._told
        if self._stamp_now() == self._stamp:
            return None
        info = self.now()
        return info if _described(info) != told else None

    def _stamp_now(self) -> object:
        try:
            status = (self._run_folder / MANIFEST).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def _described(info: RunInfo) -> object:
    return info.name, dict(info.config), info.tags, dict(info.environment)
