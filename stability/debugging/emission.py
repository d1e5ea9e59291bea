"""What a debug session emits under ``stability/debug/``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import Cell
from tracker_adapters.emitter import Emitter
from tracker_adapters.redaction import redact

from stability.reporting.files import plain_json
from stability.results.debugging import GradientCheck, MemoryProfile, OperatorTime
from stability.results.step import DebugInfo, DebugSummary


class DebugEmission:
    """Emits what the tools found; without an emitter it does nothing."""

    def __init__(self, emitter: Emitter | None, *, memory: bool) -> None:
        """Takes the emitter, and whether memory of the CUDA devices is to be emitted at each step."""
        self._emitter = None if emitter is None else emitter.scoped("stability/debug")
        self._memory = memory

    def step(self, info: DebugInfo, step: int) -> None:
        """Emits what a step's ``debug_info`` holds of times, CUDA memory, a memory profile and a gradient check."""
        if self._emitter is None:
            return
        numbers: dict[str, float] = {}
        if "step_times" in info:
            numbers |= {f"seconds/{phase}": float(seconds) for phase, seconds in info["step_times"].items()}  # type: ignore[arg-type]
        if self._memory and "memory_info" in info and "cuda_memory" in info["memory_info"]:
            cuda = info["memory_info"]["cuda_memory"]
            numbers |= {f"cuda_memory/{name}_mb": float(size) for name, size in cuda.items()}  # type: ignore[arg-type]
        if numbers:
            self._emitter.scalars(list(numbers), list(numbers.values()), step=step)
        if "memory_profile" in info:
            self._memory_profile(self._emitter, info["memory_profile"], step)
        if "gradient_check" in info:
            self._gradient_check(self._emitter, info["gradient_check"], step)

    def operators(self, operators: list[OperatorTime], trace: Path | None, step: int) -> None:
        """Emits the table ``operators``, and the file ``trace`` if there is one."""
        if self._emitter is None:
            return
        columns = ("operator", "calls", "cpu_ms", "cuda_ms", "memory_mb")
        rows = [_row(operator, columns) for operator in operators]
        self._emitter.table("operators", columns, rows, step=step)
        if trace is not None:
            self._emitter.file(trace, media_type="application/gzip", step=step, name="trace")

    def summary(self, summary: DebugSummary, step: int) -> None:
        """Emits a session's summary as the text ``summary``, in JSON."""
        if self._emitter is not None:
            text = json.dumps(plain_json(summary), indent=1)
            self._emitter.text("summary", f"```json\n{text}\n```", step=step)

    def error(self, description: str, info: DebugInfo | None, step: int) -> None:
        """Emits the text ``error``: what ended the run, and the last step's ``debug_info``."""
        if self._emitter is not None:
            last = "no step was seen" if info is None else json.dumps(plain_json(info), indent=1)
            # An exception of the loop's can show what is in its configuration.
            self._emitter.text("error", redact(f"{description}\n\n```json\n{last}\n```"), step=step)

    @staticmethod
    def _memory_profile(emitter: Emitter, profile: MemoryProfile, step: int) -> None:
        columns = ("module", "type", "calls", "forward_mb", "parameters_mb", "buffers_mb")
        rows = [_row(module, columns) for module in profile["modules"]]
        emitter.table("memory_profile", columns, rows, step=step)

    @staticmethod
    def _gradient_check(emitter: Emitter, check: GradientCheck, step: int) -> None:
        columns = ("input", "input_index", "output", "output_index", "mode", "numerical", "analytical")
        result = check["skipped"] or ("passed" if check["passed"] else "failed")
        emitter.text("gradient_check", f"{check['module']}: {result}", step=step)
        if check["failures"]:
            rows = [_row(failure, columns) for failure in check["failures"]]
            emitter.table("gradient_check_failures", columns, rows, step=step)


def _row(entry: Mapping[str, Any], columns: Sequence[str]) -> list[Cell]:
    return [str(entry[column]) if isinstance(entry[column], list) else entry[column] for column in columns]
