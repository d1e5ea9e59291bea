"""Checks rules that others wrote."""

from debuggers.detectors.detector import Detector
from debuggers.detectors.signal_detector import SignalDetector
from debuggers.diagnosis.signals import OF_LAYERS, OF_PARAMETERS
from debuggers.errors import DebuggerConfigError

_COMMON = ("kind", "level", "rule", "evidence")
_FIELDS = {True: (*_COMMON, "statistics", "judged", "worst"), False: (*_COMMON, "signals")}
"""What a Detector, and what a SignalDetector must say of itself."""
_OF_TENSORS = tuple(signal.name for signal in (*OF_PARAMETERS, *OF_LAYERS))


def check_rule(rule: object) -> None:
    """Checks that something is a rule which a session can run.

    Raises:
        DebuggerConfigError: When it is none, lacks a field, or needs what no session collects.
    """
    if not isinstance(rule, (Detector, SignalDetector)):
        hint = "; expected an instance" if isinstance(rule, type) else ""
        raise DebuggerConfigError(f"{rule!r} is no Detector and no SignalDetector{hint}")
    if lacking := [name for name in _FIELDS[isinstance(rule, Detector)] if not hasattr(rule, name)]:
        raise DebuggerConfigError(f"the detector {type(rule).__name__} lacks {', '.join(lacking)}; see its base class")
    if isinstance(rule, Detector) and (len(rule.statistics) != 1 or not rule.statistics <= set(_OF_TENSORS)):
        needs = ", ".join(sorted(rule.statistics))
        raise DebuggerConfigError(
            f"the detector {rule.kind!r} needs {needs}; expected one of the signals of tensors that a session "
            f"collects: {', '.join(_OF_TENSORS)}"
        )
