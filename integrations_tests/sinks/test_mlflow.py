"""The MLflow sink against the contract, read back through MlflowClient."""

from __future__ import annotations

from typing import Any

from readback_mlflow import read_back
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import Shown, SinkContract


class TestMLflowSink(SinkContract):
    sink_class = MLflowSink

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)
