"""Shows a run in W&B."""

from tracker_adapters.sinks.wandb.sink import WandbSink

__all__ = ["WandbSink"]
