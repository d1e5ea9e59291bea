"""Debuggers that run other debuggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debuggers.wrappers.sequential_debugger import SequentialDebugger


def __getattr__(name: str) -> Any:
    if name == "SequentialDebugger":
        from debuggers.wrappers.sequential_debugger import SequentialDebugger

        return SequentialDebugger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["SequentialDebugger"]
