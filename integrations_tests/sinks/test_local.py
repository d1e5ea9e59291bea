"""The local sink against the contract, read back with csv, json and Pillow."""

from __future__ import annotations

from typing import Any

from readback_local import read_back
from tracker_adapters.sinks.local import LocalSink
from tracker_adapters.testing.contract import Shown, SinkContract


class TestLocalSink(SinkContract):
    sink_class = LocalSink

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)
