"""The rules about signals in a session: they see each signal when it is noted, and what they find is told."""

from collections.abc import Iterable, Mapping, Sequence

import numpy.typing as npt
from tracker_adapters.emitter import Emitter

from debuggers.detectors import Detector, Finding, SignalDetector
from debuggers.detectors.finding import collect, tell
from debuggers.detectors.signals.front import Rule, SignalDetectors
from debuggers.diagnosis.signals import OF_LAYERS, OF_PARAMETERS
from debuggers.instrumentation.isolation import Isolation
from stepscope.errors import SessionError
from stepscope.sessions.config import DebugConfig

_COMMON = ("kind", "level", "rule", "evidence")
_FIELDS = {True: (*_COMMON, "statistics", "judged", "worst"), False: (*_COMMON, "signals")}
"""What a Detector, and what a SignalDetector must say of itself."""
_OF_TENSORS = tuple(signal.name for signal in (*OF_PARAMETERS, *OF_LAYERS))


class SessionDetectors:
    """Hands signals to the rules that are always on, and to those of the user.

    What begins is told as an alert if it is a problem, or if it comes from a rule of the user. A rule that raises is
    counted as a failure of the session, and left out.
    """

    def __init__(self, more: Sequence[Rule], emitter: Emitter | None, isolation: Isolation) -> None:
        """Takes the user's rules, which ``checked_detectors`` has checked."""
        self._emitter, self._isolation = emitter, isolation
        self._may_saturate: set[str] = set()
        self._rules = SignalDetectors(more, output_layers=self._may_saturate, on_failure=self._fail)
        self._told = frozenset(rule.kind for rule in more)

    @property
    def needs(self) -> frozenset[str]:
        """The names of all signals that some rule takes."""
        return self._rules.needs

    def see(self, step: int, values: Mapping[str, float]) -> None:
        """Takes signals of a step."""
        self._take(self._rules.see(step, values))

    def see_tensors(self, step: int, signal: str, names: tuple[str, ...], values: npt.ArrayLike) -> None:
        """Takes one signal of many tensors."""
        self._take(self._rules.see_tensors(step, signal, names, values))

    def see_outputs(self, layers: Iterable[str]) -> None:
        """Takes the names of layers whose outputs may lie at their bounds."""
        self._may_saturate.update(layers)

    def findings(self) -> list[Finding]:
        """Returns all findings so far."""
        return self._rules.findings()

    def _take(self, begun: list[Finding]) -> None:
        if begun:
            collect(begun)
            tell([one for one in begun if one.is_problem or one.kind in self._told], self._emitter)

    def _fail(self, rule: Rule, error: Exception) -> None:
        self._isolation.record(f"the detector {rule.kind!r}", error)
        if self._isolation.on_error == "raise":
            raise error


def checked_detectors(given: object, model: object, config: DebugConfig) -> tuple[Rule, ...]:
    """Returns the rules that a user gave.

    Raises:
        SessionError: For what is no list of detectors, and for one that needs what this session does not collect.
    """
    if isinstance(given, (str, Detector, SignalDetector)) or not isinstance(given, Iterable):
        raise SessionError(f"detectors is {given!r}; expected a list of detectors, such as [VarianceBounds(1e-4, 100)]")
    rules = tuple(given)
    if rules and (model is None or not config.diagnosis):
        missing = "no model" if model is None else "diagnosis=False"
        raise SessionError(f"the session has detectors, and {missing}; expected a model and diagnosis=True")
    for rule in rules:
        if not isinstance(rule, (Detector, SignalDetector)):
            hint = "; expected an instance" if isinstance(rule, type) else ""
            raise SessionError(f"detectors holds {rule!r}, which is no Detector and no SignalDetector{hint}")
        if lacking := [name for name in _FIELDS[isinstance(rule, Detector)] if not hasattr(rule, name)]:
            raise SessionError(f"the detector {type(rule).__name__} lacks {', '.join(lacking)}; see its base class")
        if isinstance(rule, Detector) and (len(rule.statistics) != 1 or not rule.statistics <= set(_OF_TENSORS)):
            needs = ", ".join(sorted(rule.statistics))
            raise SessionError(
                f"the detector {rule.kind!r} needs {needs}; expected one of the signals of tensors that a session "
                f"collects: {', '.join(_OF_TENSORS)}"
            )
    return rules
