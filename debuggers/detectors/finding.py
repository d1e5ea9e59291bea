"""What a detector found: the tensor, the steps, and the values as evidence."""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter
from tracker_adapters.wording import some_of

_NAMED = 5
_SEVERITIES: dict[AlertLevel, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)
_collected: ContextVar[list["Finding"] | None] = ContextVar("collected findings", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule that one tensor broke, over one period.

    Attributes:
        kind: The rule's name, such as ``exploding_gradient``; the name of the alert.
        name: The tensor or layer.
        level: ``info``, ``warning`` or ``error``; ``info`` is worth telling, but no problem.
        step: The first step at which the rule was broken.
        last_step: The last one so far.
        steps: Number of observed steps at which it was broken.
        ongoing: Whether it was broken at one of the last 10 observed steps.
        value: The worst value of the statistic that the rule checks.
        threshold: The limit at that step.
        evidence: The value and the limit in words.
        rule: The formula with its default, and the source of both.
    """

    kind: str
    name: str
    level: AlertLevel
    step: int
    last_step: int
    steps: int
    ongoing: bool
    value: float
    threshold: float
    evidence: str
    rule: str

    @classmethod
    def going_on(
        cls,
        kind: str,
        name: str,
        steps: Sequence[int] | npt.NDArray[np.int64],
        *,
        evidence: str,
        rule: str,
        level: AlertLevel = "error",
        value: float = math.nan,
        threshold: float = math.nan,
    ) -> Self:
        """Returns a finding whose rule was broken at some steps, and is broken still."""
        return cls(
            kind=kind,
            name=name,
            level=level,
            step=int(min(steps)),
            last_step=int(max(steps)),
            steps=len(steps),
            ongoing=True,
            value=value,
            threshold=threshold,
            evidence=evidence,
            rule=rule,
        )

    @property
    def is_problem(self) -> bool:
        """Whether it speaks against the training's health."""
        return self.level != "info"

    @property
    def message(self) -> str:
        """The finding in one sentence."""
        if self.steps <= 1:
            return f"{self.name}: {self.evidence} at step {self.step}"
        steps = f"{self.steps:,} observed steps from {self.step} to {self.last_step}"
        return f"{self.name}: {self.evidence} at {steps}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and the message."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__} | {"message": self.message}


def name_some(names: list[str]) -> str:
    """Lists the first five names, and counts the others."""
    return some_of(names, _NAMED)


def names_in(text: str) -> tuple[list[str], int]:
    """Returns the names that ``name_some`` has listed, and how many more there are that it has only counted."""
    listed, joined, rest = text.rpartition(" and ")
    more = rest.removesuffix(" more")
    if joined and more != rest and more.isdecimal():
        return listed.split(", "), int(more)
    return text.split(", "), 0


def merge_findings(findings: list[Finding]) -> list[Finding]:
    """Merges findings of one kind and step, so that a thousand tensors that break a rule at once are one alert."""
    groups: dict[tuple[str, int], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.last_step), []).append(finding)
    return [
        group[0]
        if len(group) == 1
        else replace(
            group[0],
            name=name_some([finding.name for finding in group]),
            evidence=f"{len(group)} tensors; in {group[0].name} {group[0].evidence}",
        )
        for group in groups.values()
    ]


@contextmanager
def collected_findings() -> Iterator[list[Finding]]:
    """Gives a list that has all findings which are announced inside the block, in this thread."""
    found: list[Finding] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def announce(findings: list[Finding], emitter: Emitter | None) -> None:
    """Emits findings as alerts, and gives them to ``collected_findings``."""
    if (found := _collected.get()) is not None:
        found += findings
    tell(findings, emitter)


def tell(findings: list[Finding], emitter: Emitter | None) -> None:
    """Emits findings as alerts: one for each kind and step; without an emitter they are logged."""
    for finding in merge_findings(findings):
        if emitter is not None:
            emitter.alert(finding.kind, finding.message, step=finding.last_step, level=finding.level)
        else:
            _log.log(_SEVERITIES[finding.level], "%s: %s", finding.kind, finding.message)
