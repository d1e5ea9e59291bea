"""An emitter that keeps artifacts in a list."""

import threading
from collections.abc import Iterable

from tracker_adapters.artifacts import Artifact, File, Page, Scalar
from tracker_adapters.emitter import Emitter
from tracker_adapters.recording import Deferred, HistogramBlock, Recordable, ScalarBlock


class MemoryRecorder:
    """Keeps everything in ``artifacts``, in order of arrival; files stay where they are."""

    def __init__(self) -> None:
        self.artifacts: list[Artifact] = []
        self._lock = threading.Lock()

    def put(self, item: Recordable, nbytes: int) -> None:
        """Builds and keeps the artifact, or the ones that a block stands for."""
        built: Iterable[Artifact]
        if isinstance(item, (ScalarBlock, HistogramBlock)):
            built = item.artifacts()
        elif isinstance(item, tuple):
            name, step, time_ns, value = item
            built = [Scalar(name=name, step=step, time_ns=time_ns, value=value)]
        else:
            built = [item.build() if isinstance(item, Deferred) else item]
        with self._lock:
            self.artifacts.extend(built)

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
