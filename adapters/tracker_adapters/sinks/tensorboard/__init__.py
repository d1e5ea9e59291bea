"""Shows a run in TensorBoard."""

from tracker_adapters.sinks.tensorboard.sink import TensorBoardSink

__all__ = ["TensorBoardSink"]
