"""The TensorBoard sink: the contract."""

from __future__ import annotations

from typing import Any, ClassVar

from readback_tensorboard import read_back
from tracker_adapters.sinks.tensorboard import TensorBoardSink
from tracker_adapters.testing.contract import Shown, SinkContract


class TestTensorBoardSink(SinkContract):
    sink_class = TensorBoardSink
    float32 = True
    degraded: ClassVar = {"alert": "text", "table": "text", "page": "text", "file": "text"}
    drops_late_steps = True

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)
