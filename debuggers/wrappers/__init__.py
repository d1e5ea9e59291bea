"""Debuggers that run other debuggers."""

from typing import TYPE_CHECKING

from tracker_adapters.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from debuggers.wrappers.sequential_debugger import SequentialDebugger

__getattr__, __dir__ = names_on_demand(__name__, {"SequentialDebugger": "debuggers.wrappers.sequential_debugger"})
__all__ = ["SequentialDebugger"]
