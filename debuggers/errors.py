"""The exceptions that the debuggers raise."""

from tracker_adapters.errors import StepscopeError


class LayerNotFoundError(StepscopeError, ValueError):
    """The model has no layer of this name; the message lists the nearest names."""


class DebuggerConfigError(StepscopeError, ValueError):
    """A debugger configuration is wrong: missing keys, a duplicate or reserved name, no debugger class."""


class PageError(StepscopeError):
    """A page could not be written, or was refused by the reader; the message names the page and the reason."""


class DatapointError(StepscopeError, ValueError):
    """A datapoint has no index, or one that cannot be read or does not fit its rows."""


class ClosedDebuggerError(StepscopeError, RuntimeError):
    """A SequentialDebugger was used after ``close``."""


class ArgumentTypeError(StepscopeError, TypeError):
    """An argument is of a type that the function does not take; the message names both."""


class HistoryError(StepscopeError, ValueError):
    """A history was asked for a name or statistic that it does not have, or given steps that do not fit together."""


class UnknownTensorError(StepscopeError, LookupError):
    """The tensor inspector has no such tensor: it was never inspected, left out by sampling, or dropped since."""


class FindingError(StepscopeError, RuntimeError):
    """A finding ends the training, as ``on_finding`` requests; the message is the finding."""


class UnknownHookError(StepscopeError, LookupError):
    """There is no such conditional hook: it was never registered, or removed since."""


class TimerError(StepscopeError, RuntimeError):
    """A timer was started while it ran, or ended while it did not."""


class ProfilerError(StepscopeError, RuntimeError):
    """Steps cannot be profiled: nobody tells of them, another profiler runs, or what was recorded is too large."""


class CapturedGraphError(StepscopeError, RuntimeError):
    """Something was to be measured while a CUDA graph is being captured, and would have become a part of it."""
