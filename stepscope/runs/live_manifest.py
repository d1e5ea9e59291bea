"""What a run that is open says of itself, and when run.json says it."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.store.layout import ranks
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.writing.run_store import RunStore

logger = logging.getLogger(__name__)


class LiveManifest:
    """The manifest of an open run; callers change it in memory, and the store's thread writes what rank 0 changed.

    How the run ended is written by the lowest rank that has a store: a run may be without rank 0.

    Attributes:
        manifest: What run.json says, or will say soon.
    """

    def __init__(self, manifest: Manifest, folder: Path, *, rank: int) -> None:
        self.manifest = manifest
        self._folder, self._rank = folder, rank
        self._lock = threading.Lock()
        self._changed = False

    def describe(
        self,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Changes what is given: entries of mappings are added or replaced, the rest is replaced.

        Raises:
            ArtifactError: For a value of the wrong type; nothing is changed.
        """
        with self._lock:
            info = self.manifest.info
            new: dict[str, Any] = {"name": name, "tags": tags}
            # Checked first: what is no mapping of names to values must not be merged.
            new["config"] = None if config is None else {**info.config, **RunInfo(id="", name="", config=config).config}
            new["environment"] = None if environment is None else {**info.environment, **environment}
            self.manifest = replace(
                self.manifest, info=replace(info, **{key: value for key, value in new.items() if value is not None})
            )
            self._changed = True

    def set_status(self, status: RunStatus) -> None:
        """Sets how the run ended; ``save_end`` writes it."""
        with self._lock:
            self.manifest = self.manifest.with_status(status)

    def save_changes(self, store: RunStore) -> None:
        """Writes what was changed since it was last written; what cannot be written is tried again."""
        if not self._changed or self._rank != 0 or not store.is_in_place:
            return
        with self._lock:
            self._changed = False
            manifest = self.manifest
        try:
            manifest.save(self._folder)
        except OSError as error:
            self._changed = True
            logger.debug("cannot write what run %s says of itself yet: %s", self._folder, error)

    def save_end(self, lost: Mapping[str, int], *, in_place: bool) -> OSError | None:
        """Writes how the run ended, where it is still in its place; returns why that failed."""
        with self._lock:
            self.manifest = replace(self.manifest, lost=dict(lost), ended_ns=time.time_ns())
        # Where it is not in its place, another run may lie there now.
        if not in_place or self._rank != min(ranks(self._folder), default=self._rank):
            return None
        try:
            self.manifest.save(self._folder)
        except OSError as error:
            logger.error("cannot record the end of the run in %s: %s", self._folder, error)
            return error
        return None
