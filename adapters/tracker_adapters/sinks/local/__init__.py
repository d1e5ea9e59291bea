"""Shows a run in plain files."""

from tracker_adapters.sinks.local.sink import LocalSink

__all__ = ["LocalSink"]
