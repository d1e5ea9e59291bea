"""What the parts of the contract need to know about the sink that they test; SinkContract says it."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import Artifact
from tracker_adapters.batch import Batch
from tracker_adapters.sink import Sink


class SinkTests:
    """The base of the parts of the contract."""

    sink_class: ClassVar[type[Sink]]

    @abstractmethod
    def options(self, folder: Path) -> dict[str, Any]:
        """Returns the sink's resolved options for a run in ``folder``."""

    @abstractmethod
    def deliver(self, options: dict[str, Any], *batches: Batch) -> Counter[str]:
        """Opens a new sink, writes the batches, finishes and closes; returns what could not be shown."""

    @abstractmethod
    def assert_shows(self, options: dict[str, Any], artifacts: Sequence[Artifact]) -> None:
        """Asserts that the tracker shows exactly ``artifacts``."""
