"""An emitter that keeps artifacts in a list."""

from __future__ import annotations

import threading

from tracker_adapters.artifacts import Artifact, File, Page, Scalar
from tracker_adapters.emitter import Deferred, Emitter, ScalarRow


class MemoryRecorder:
    """Keeps everything in ``artifacts``, in order of arrival; files stay where they are."""

    def __init__(self) -> None:
        self.artifacts: list[Artifact] = []
        self._lock = threading.Lock()

    def put(self, item: ScalarRow | Artifact | Deferred, nbytes: int) -> None:
        """Builds and keeps the artifact."""
        if isinstance(item, tuple):
            name, step, time_ns, value = item
            item = Scalar(name=name, step=step, time_ns=time_ns, value=value)
        elif isinstance(item, Deferred):
            item = item.build()
        with self._lock:
            self.artifacts.append(item)

    def adopt(self, artifact: Page | File) -> Page | File:
        """Returns the artifact unchanged."""
        return artifact


class MemoryEmitter(Emitter):
    """An emitter for tests; ``artifacts`` holds what was emitted through it and its derived emitters."""

    def __init__(self) -> None:
        self.recorder = MemoryRecorder()
        super().__init__(self.recorder)

    @property
    def artifacts(self) -> list[Artifact]:
        """What was emitted so far."""
        return self.recorder.artifacts
