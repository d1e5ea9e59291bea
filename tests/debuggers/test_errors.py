"""Every error is one of this project, and is also caught by the built-in class that it specialises."""

from tracker_adapters.errors import StepscopeError

from debuggers import errors

BUILT_IN = {
    "ArgumentTypeError": TypeError,
    "CapturedGraphError": RuntimeError,
    "ClosedDebuggerError": RuntimeError,
    "DatapointError": ValueError,
    "DebuggerConfigError": ValueError,
    "FindingError": RuntimeError,
    "HistoryError": ValueError,
    "LayerNotFoundError": ValueError,
    "PageError": Exception,
    "ProfilerError": RuntimeError,
    "TimerError": RuntimeError,
    "UnknownHookError": LookupError,
    "UnknownTensorError": LookupError,
}


def test_an_error_is_caught_in_both_ways():
    defined = {name: kind for name, kind in vars(errors).items() if getattr(kind, "__module__", "") == errors.__name__}
    assert defined.keys() == BUILT_IN.keys()
    for name, kind in defined.items():
        assert issubclass(kind, StepscopeError)
        assert issubclass(kind, BUILT_IN[name])
