"""Hands the signals of a training to all rules that need them."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
from debuggers.detectors.finding import Finding
from debuggers.detectors.layers import layer_detectors
from debuggers.detectors.observation import Observation
from debuggers.detectors.signal_detector import SignalDetector
from debuggers.detectors.signals import signal_detectors

Rule = SignalDetector | Detector

_OWN_OUTPUT = "saturated"
_SLOW_S, _LONG_S = 1e-3, 1.0
"""Seconds that a rule of the user takes a call from which it is slow, and of all its calls when that is told."""
_log = logging.getLogger(__name__)


class SignalDetectors:
    """All rules about signals; the names of signals are those of ``debuggers.diagnosis.signals``.

    A rule that raises is told once in the log and left out from then on: nothing of it reaches the training. One of the
    user's that takes a millisecond a call and more is told once, too: that is overhead which no limit lowers.

    Attributes:
        failures: The rules that raised, by their kinds, with the exception.
    """

    def __init__(
        self,
        more: Iterable[Rule] = (),
        *,
        output_layers: Collection[str] = (),
        on_failure: Callable[[Rule, Exception], None] | None = None,
    ) -> None:
        """Takes further rules beside those that are always on.

        Args:
            more: Rules of the user, each with its own state.
            output_layers: Layers whose outputs may saturate: the model's own output, and attention. Names may be added
                to the collection later.
            on_failure: Is told of a rule that raised, once; by default the log is.
        """
        self._on_failure = on_failure or _log_failure
        self.failures: dict[str, Exception] = {}
        self._output_layers = output_layers
        self._judging: dict[str, list[SignalDetector]] = {}
        self._informed: dict[str, list[SignalDetector]] = {}
        self._of_tensors: dict[str, list[Detector]] = {}
        self._columns: dict[str, _Columns] = {}
        more = list(more)
        self._spent: dict[int, _Spent] = {id(rule): _Spent() for rule in more if isinstance(rule, SignalDetector)}
        self._rules: list[Rule] = [*signal_detectors(), *layer_detectors(), *more]
        for rule in self._rules:
            if isinstance(rule, SignalDetector):
                for signal in rule.context:
                    self._informed.setdefault(signal, []).append(rule)
                for signal in rule.signals:
                    self._judging.setdefault(signal, []).append(rule)
            else:
                for signal in rule.statistics:
                    self._of_tensors.setdefault(signal, []).append(rule)

    @property
    def needs(self) -> frozenset[str]:
        """The names of all signals that some rule takes: others need not be measured for them."""
        return frozenset({*self._judging, *self._informed, *self._of_tensors})

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of findings that the rules make."""
        return frozenset(rule.kind for rule in self._rules)

    def see(self, step: int, values: Mapping[str, float]) -> list[Finding]:
        """Takes scalar signals of a step, and returns the findings that begin with them.

        Args:
            step: The training step; ascending.
            values: By the names of the signals, without a prefix; NaN and infinities are values.
        """
        found: list[Finding] = []
        informed, judging = self._informed, self._judging
        for name in values:
            if name in informed:
                for rule in informed[name]:
                    try:
                        rule.inform(step, name, values[name])
                    except Exception as error:
                        self._leave_out(rule, error)
        for name, value in values.items():
            if name not in judging:
                continue
            for rule in judging[name]:
                try:
                    spent = self._spent.get(id(rule))
                    finding = rule.see(step, name, value) if spent is None else spent.see(rule, step, name, value)
                except Exception as error:
                    self._leave_out(rule, error)
                    continue
                if finding is not None:
                    found.append(finding)
        return found

    def see_tensors(
        self, step: int, signal: str, names: Sequence[str], values: npt.ArrayLike | Sequence[float]
    ) -> list[Finding]:
        """Takes one signal of many tensors at a step, and returns the findings that begin with it.

        Args:
            step: The training step; ascending.
            signal: Such as ``output_std``.
            names: Of the tensors; pass the same tuple each time where it is the same.
            values: float (n,), one for each name; NaN where the signal is not defined.
        """
        rules = self._of_tensors.get(signal)
        if not rules or not len(names):
            return []
        columns = self._columns.get(signal)
        if columns is None:
            columns = self._columns[signal] = _Columns(self._output_layers if signal == _OWN_OUTPUT else ())
        observation = columns.observation(step, signal, names, values)
        found: list[Finding] = []
        for rule in tuple(rules):
            try:
                found += rule.see(observation)
            except Exception as error:
                self._leave_out(rule, error)
        return found

    def findings(self) -> list[Finding]:
        """Returns all findings so far, by their first step."""
        found: list[Finding] = []
        for rule in tuple(self._rules):
            try:
                found += rule.findings()
            except Exception as error:
                self._leave_out(rule, error)
        return sorted(found, key=lambda finding: (finding.step, finding.kind))

    def _leave_out(self, rule: Rule, error: Exception) -> None:
        if rule in self._rules:
            self._rules.remove(rule)
            self.failures[rule.kind] = error
        else:
            return
        for signal, rules in chain(self._judging.items(), self._informed.items()):
            if rule in rules:  # a new list, because the old one may be in use
                table = self._judging if rules is self._judging.get(signal) else self._informed
                table[signal] = [other for other in rules if other is not rule]
        for signal, detectors in self._of_tensors.items():
            self._of_tensors[signal] = [other for other in detectors if other is not rule]
        self._on_failure(rule, error)


def _log_failure(rule: Rule, error: Exception) -> None:
    _log.warning("the detector %s failed and is left out: %r", rule.kind, error)


class _Spent:
    """Measures what a rule of the user takes, until it was told to be slow."""

    __slots__ = ("_calls", "_is_told", "_seconds")

    def __init__(self) -> None:
        self._calls, self._seconds, self._is_told = 0, 0.0, False

    def see(self, rule: SignalDetector, step: int, signal: str, value: float) -> Finding | None:
        start_s = time.perf_counter()
        try:
            return rule.see(step, signal, value)
        finally:
            self._calls += 1
            self._seconds += time.perf_counter() - start_s
            if not self._is_told and self._seconds > _LONG_S and self._seconds > _SLOW_S * self._calls:
                self._is_told = True
                _log.warning(
                    "the detector %r takes %.1f ms a call, which is overhead that no limit lowers (told once)",
                    rule.kind,
                    self._seconds / self._calls * 1e3,
                )


class _Columns:
    """Gives the tensors of one signal rows that stay theirs."""

    def __init__(self, left_out: Collection[str]) -> None:
        self._left_out = left_out
        self._names: list[str] = []
        self._row_of: dict[str, int] = {}
        self._last: tuple[str, ...] = ()
        self._rows: npt.NDArray[np.intp] = np.empty(0, np.intp)

    def observation(
        self, step: int, signal: str, names: Sequence[str], values: npt.ArrayLike | Sequence[float]
    ) -> Observation:
        wanted = names if type(names) is tuple else tuple(names)
        if wanted is not self._last and wanted != self._last:
            for name in wanted:
                if name not in self._row_of:
                    self._row_of[name] = len(self._names)
                    self._names.append(name)
            self._rows = np.array([self._row_of[name] for name in wanted], np.intp)
            self._last = wanted
        column = np.full(len(self._names), np.nan)
        column[self._rows] = values
        for name in self._left_out:
            if name in self._row_of:
                column[self._row_of[name]] = np.nan
        return Observation(step, self._names, ~np.isnan(column), {signal: column})
