"""Shows a run in MLflow."""

from tracker_adapters.sinks.mlflow.sink import MLflowSink

__all__ = ["MLflowSink"]
