"""Public test doubles and the contract suite that every sink passes."""

from tracker_adapters.testing.recorder import MemoryEmitter, MemoryRecorder
from tracker_adapters.testing.sinks import FailingSink, MemorySink, RefusingSink, StalledSink

__all__ = ["FailingSink", "MemoryEmitter", "MemoryRecorder", "MemorySink", "RefusingSink", "StalledSink"]
