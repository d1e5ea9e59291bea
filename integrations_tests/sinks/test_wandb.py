"""The W&B sink: the contract, and what its docstring promises beyond it."""

from __future__ import annotations

from typing import Any

from readback_wandb import read_back
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import Shown, SinkContract


class TestWandbSink(SinkContract):
    sink_class = WandbSink

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)
