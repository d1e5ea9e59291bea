"""Who judges signals: hands them to the rules when they are noted, and tells what these find."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy.typing as npt
from tracker_adapters.emitter import Emitter

from debuggers.detectors import Finding
from debuggers.detectors.finding import tell
from debuggers.detectors.signal_detector import SignalDetector
from debuggers.detectors.signals.front import Rule, SignalDetectors
from debuggers.diagnosis.signals import OF_A_STEP, RECORDED_ELSEWHERE
from debuggers.instrumentation.isolation import Isolation


class SignalJudge:
    """Hands signals to the rules that are always on, and to those of the user.

    What begins is told as an alert if it is a problem, or if it comes from a rule of the user. A rule that raises is
    counted as a failure, and left out.

    Attributes:
        on_begun: Called with all findings that begin, whatever their level.
    """

    def __init__(self, more: Sequence[Rule], emitter: Emitter | None, isolation: Isolation) -> None:
        """Takes the user's rules, which ``check_rule`` has checked."""
        self._emitter, self._isolation = emitter, isolation
        self.on_begun: Callable[[list[Finding]], None] = lambda findings: None
        self._may_saturate: set[str] = set()
        self._rules = SignalDetectors(more, output_layers=self._may_saturate, on_failure=self._fail)
        self._told = frozenset(rule.kind for rule in more)
        self._unseen = {(rule.kind, name) for rule in more if isinstance(rule, SignalDetector) for name in rule.signals}
        self._needs = self._rules.needs

    @property
    def needs(self) -> frozenset[str]:
        """The names of all signals that some rule takes."""
        return self._needs

    @property
    def is_asked(self) -> bool:
        """Whether there are rules of the user, who may look at what they find right after the step."""
        return bool(self._told)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of findings that the rules make."""
        return self._rules.kinds

    def not_seen(self) -> tuple[str, ...]:
        """Returns one phrase for each signal that a rule of the user judges, and that never came."""
        known = [signal.name for signal in (*RECORDED_ELSEWHERE, *OF_A_STEP)]
        found = []
        for kind, name in sorted(self._unseen):
            near = "" if name in known else " or ".join(map(repr, get_close_matches(name, known, n=2)))
            hint = f"; did you mean {near}?" if near else ""
            found.append(f"the detector {kind!r} has seen no {name!r}{hint}")
        return tuple(found)

    def see(self, step: int, values: Mapping[str, float]) -> None:
        """Takes signals of a step."""
        self._judge(step, values)

    def see_one(self, step: int, name: str, value: float) -> None:
        """Takes one signal of a step."""
        if name in self._needs:
            self._judge(step, {name: value})

    def see_tensors(self, step: int, signal: str, names: tuple[str, ...], values: npt.ArrayLike) -> None:
        """Takes one signal of many tensors."""
        self._take(self._rules.see_tensors(step, signal, names, values))

    def see_outputs(self, layers: Iterable[str]) -> None:
        """Takes the names of layers whose outputs may lie at their bounds."""
        self._may_saturate.update(layers)

    def findings(self) -> list[Finding]:
        """Returns all findings so far; of level info one for each kind and name, over all its periods."""
        periods: dict[tuple[str, str], list[Finding]] = {}
        found = self._rules.findings()
        for one in found:
            if not one.is_problem:
                periods.setdefault((one.kind, one.name), []).append(one)
        problems = [one for one in found if one.is_problem]
        return sorted([*problems, *map(_folded, periods.values())], key=lambda one: (one.step, one.kind))

    def _judge(self, step: int, values: Mapping[str, float]) -> None:
        if self._unseen:
            self._unseen = {(kind, name) for kind, name in self._unseen if name not in values}
        self._take(self._rules.see(step, values))

    def _take(self, begun: list[Finding]) -> None:
        if begun:
            self.on_begun(begun)
            tell([one for one in begun if one.is_problem or one.kind in self._told], self._emitter)

    def _fail(self, rule: Rule, error: Exception) -> None:
        self._isolation.record(f"the detector {rule.kind!r}", error)
        if self._isolation.on_error == "raise":
            raise error


def _folded(periods: list[Finding]) -> Finding:
    """The periods of one rule and name as one, with the value that is farthest from its limit."""
    worst = max(periods, key=lambda one: (abs(one.value - one.threshold), -one.step))
    return replace(
        worst,
        step=periods[0].step,
        last_step=periods[-1].last_step,
        steps=sum(one.steps for one in periods),
        ongoing=periods[-1].ongoing,
    )
