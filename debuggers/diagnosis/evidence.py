"""The evidence of one training: findings, signals and facts, from a running session or from a run's store."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracker_adapters.wording import share_of

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import Facts
from debuggers.diagnosis.series import EMPTY, Series


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Evidence:
    """What rules argue from.

    Attributes:
        findings: All of the training, in order of their first step.
        series: By the names of ``signals.RECORDED_ELSEWHERE`` and ``signals.OF_A_STEP``, and the caller's metrics.
        tensors: By the names of ``signals.OF_PARAMETERS`` and ``signals.OF_LAYERS``, then by the tensor's name, in
            the model's order.
        facts: What is known besides.
    """

    findings: tuple[Finding, ...] = ()
    series: Mapping[str, Series] = field(default_factory=dict)
    tensors: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)

    def __getitem__(self, name: str) -> Series:
        """The series of that name; an empty one if it was not seen."""
        return self.series.get(name, EMPTY)

    @property
    def validation(self) -> Series:
        """The validation loss: what the loop told, else what was seen, unless most steps had such a loss.

        What is computed that often belongs to the training: pseudo-labels, or a loss before and after each step.
        """
        told, seen = self["validation/loss"], self["evaluation/loss"]
        return told if len(told) or 2 * len(seen) > len(self["loss"]) else seen

    @property
    def validation_gaps(self) -> tuple[str, ...]:
        """Why the validation loss was not judged, where there is one."""
        known = self.validation
        if not len(known) or len(known.finite):
            return ()
        return (f"the validation loss was NaN or infinite at {share_of(len(known), len(known), 'validations')}",)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What was not checked: what the facts tell, and the validation loss where it could not be judged."""
        return (*self.facts.unchecked, *(gap for gap in self.validation_gaps if gap not in self.facts.gaps))

    def of_tensors(self, name: str) -> Mapping[str, Series]:
        """The series of one signal of many tensors, by their names; empty if it was not seen."""
        return self.tensors.get(name, {})

    def found(self, *kinds: str) -> list[Finding]:
        """The findings of some kinds, in order of their first step."""
        return [finding for finding in self.findings if finding.kind in kinds]
