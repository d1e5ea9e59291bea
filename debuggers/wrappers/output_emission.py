"""Emits the outputs of debuggers for a datapoint; a failure of one does not affect the others."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.instrumentation.isolation import Isolation
from debuggers.wrappers.emission import emit_outputs, emit_pictures
from debuggers.wrappers.isolated_debugger import IsolatedDebugger
from debuggers.wrappers.layer_captures import pictured


class OutputEmission:
    """Emits ``{debugger_name: outputs}``."""

    def __init__(self, debuggers: Mapping[str, IsolatedDebugger], isolation: Isolation) -> None:
        self._debuggers = debuggers
        self._isolation = isolation

    def __call__(self, emitter: Emitter, outputs: Mapping[str, Any], pictured_for: dict[str, Any] | None) -> None:
        """Emits numbers, pictures and histograms in the outputs, and the pictures that the debuggers make of them.

        Args:
            emitter: Where to.
            outputs: What the debuggers returned.
            pictured_for: The datapoint; None for no pictures beside those in the outputs.
        """
        for name, output in outputs.items():
            debugger = self._debuggers[name]
            place = debugger.place
            emit_outputs(emitter, name, output, partial(self._isolation.guard, f"emitting the outputs of {place}"))
            if pictured_for is None:
                continue
            for picture_name, capture in pictured(name, output):
                guard = self._isolation.guard(f"emitting the pictures of {place}")
                with guard, debugger.random_state_kept():
                    emit_pictures(emitter, picture_name, debugger.debugger.pictures(capture, pictured_for))
