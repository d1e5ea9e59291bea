"""stepscope: see what happens inside a PyTorch training run, in the tracker you already use."""

from stepscope.run import Run, RunStats, SinkStats, open_run, read_run

__all__ = ["Run", "RunStats", "SinkStats", "open_run", "read_run"]
