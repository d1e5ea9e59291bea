"""What a report's page is made from: the report's text, the causes, and the evidence."""

from dataclasses import dataclass, field

from tracker_adapters.wording import counted, share_of, times

from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.data_waiting import data_waiting
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts
from debuggers.diagnosis.progress import nothing_learnt
from stepscope.report_pages.stored_architecture import architecture_lines
from stepscope.report_pages.waiting_line import waiting_line

SHOWN = 3
"""Causes that are shown with their evidence; the others are named."""
_FEW_STEPS, _MANY_TIMES = 20, 4
"""Measuring pauses after so many steps without, and so many times the distance of measured steps."""
ARCHITECTURE, TRAINING, TIME = "Architecture: ", "Recorded metrics: ", "Time: "
"""What the lines of a report begin with that tell of the model, of what the loop recorded, and of times and memory."""
_PARTS = {
    "Verdict: ": "verdict",
    "Checked: ": "measured",
    "Steps: ": "measured",
    "Overhead: ": "cost",
    ARCHITECTURE: "architecture",
    TRAINING: "architecture",
    TIME: "time",
}
STATE_WORDS = {"good": "healthy", "warn": "warning", "bad": "problem"}
_BARE = ("verdict", "time")
"""Parts whose lines stand without what they begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContent:
    """A report, of a running session or of a stored run.

    Attributes:
        title: Of the page, such as the run's name.
        text: The report as text, as ``DebugReport.summary`` returns it and a run stores it; may be empty.
        causes: Most likely first.
        evidence: What they are argued from.
        notes: What else is to be said of the run, such as that it was killed.
        earlier: How earlier sessions of the same scope ended, a sentence each.
        scope: Of the session; often empty.
        rank: Whose evidence it is.
        running: Whether the training goes on: then all that is said holds so far.
        measured_steps: At how many steps individual parameters were measured, and the last of these; None where that is
            not known.
    """

    title: str
    text: str = ""
    causes: tuple[Cause, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    notes: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    scope: str = ""
    rank: int = 0
    running: bool = False
    measured_steps: tuple[int, int] | None = None

    @property
    def is_observed(self) -> bool:
        """Whether a session has left a report, facts, findings or signals."""
        evidence, facts = self.evidence, self.evidence.facts
        measured = evidence.tensors or "total_norm/gradients" in evidence.series
        found = any(finding.rule for finding in evidence.findings)  # an alert of the caller's own has no rule
        known = {"steps", "last_step", "world_size", "not_told", "gaps"}  # of any run: from its series and its ranks
        told = facts != Facts(**{name: getattr(facts, name) for name in known})
        return bool(self.text or found or measured or self.causes or told)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence; without a report, what the evidence says."""
        if stated := self._lines("verdict"):
            return stated[0]
        if not self.is_observed:
            return self._alerted or "nothing can be said: no session has observed this training."
        steps = f"{self.evidence.facts.steps:,} steps{' so far' if self.running else ''}"
        if self.causes:
            likely = [cause.title for cause in self.causes if cause.is_likely]
            gaps = f"; {self.gaps}" if self.gaps else ""
            return f"problems in {steps}: {', '.join(likely[:SHOWN])}{gaps}."
        found = counted(len(self.evidence.findings), "findings") if self.evidence.findings else ""
        why = "the training is running still" if self.running else "no report was stored"
        return f"no cause found in {steps}; {', '.join(filter(None, [why, found, self.gaps]))}."

    @property
    def state(self) -> str:
        """``good``, ``warn`` or ``bad``; empty where nothing can be said."""
        word = self.verdict.partition(":")[0].partition("(")[0].partition(",")[0].strip(" .").lower()
        if word == "healthy":
            return "good" if not self.causes else "warn"
        problems = [finding for finding in self.evidence.findings if finding.is_problem]
        if word == "critical" or any(finding.level == "error" for finding in problems):
            return "bad"
        return "warn" if self.causes or problems or word == "warning" else ""

    @property
    def state_word(self) -> str:
        """The state in words."""
        return STATE_WORDS.get(self.state) or ("no problem seen" if self.is_observed else "no verdict")

    @property
    def measured(self) -> list[str]:
        """What was measured, in sentences; without a report, what the evidence holds."""
        stated, evidence = self._lines("measured"), self.evidence
        if stated or not self.is_observed:
            return stated
        tensors = max(map(len, evidence.tensors.values()), default=0)
        of_tensors = f" and {counted(len(evidence.tensors), 'signals')} of up to {counted(tensors, 'tensors')}"
        steps = counted(evidence.facts.steps, "steps")
        return [
            f"{counted(len(evidence.series), 'signals')} of a step{of_tensors if tensors else ''} in {steps}; "
            "what else was looked at is said in the report that a session stores at its end.",
            *self._of_parameters(),
        ]

    def _of_parameters(self) -> list[str]:
        if self.measured_steps is None:
            return []
        count, last = self.measured_steps
        steps = self.evidence.facts.steps
        # With earlier attempts there are more than the session has steps.
        how_often = f"at {share_of(count, steps, 'steps')}" if count <= steps else times(count)
        told = f"Individual parameters were measured {how_often}{' so far' if self.running else ''}"
        if self._paused is None:
            return [f"{told}."]
        since = counted(self.evidence.facts.last_step - last, "steps")
        ago = (
            f"{since} ago: measuring pauses, to limit the overhead or as its schedule says"
            if self.running
            else f"{since} before the end"
        )
        return [f"{told}, the last at step {last:,}, {ago}."]

    @property
    def gaps(self) -> str:
        """At how many of the steps individual parameters were measured, unless at all; and when last, if long ago."""
        if self.measured_steps is None:
            return ""
        count, steps = self.measured_steps[0], self.evidence.facts.steps
        how_often = f"at {share_of(count, steps, 'steps')}" if count < steps else ""
        last = "" if self._paused is None else f"last at step {self._paused:,}"
        told = ", ".join(filter(None, [how_often, last]))
        return f"individual parameters were measured {told}" if told else ""

    @property
    def _paused(self) -> int | None:
        """The last measured step, if it is much farther from the last step than measured steps are from each other."""
        if self.measured_steps is None:
            return None
        count, last = self.measured_steps
        is_far = self.evidence.facts.last_step - last > max(_FEW_STEPS, _MANY_TIMES * (last + 1) / count)
        return last if is_far else None

    @property
    def cost(self) -> list[str]:
        """What that cost, in sentences."""
        return self._lines("cost")

    @property
    def left_out(self) -> list[str]:
        """What was not seen, what failed inside, and broken off trainings."""
        facts = self.evidence.facts
        failed = [line for line in self.text.splitlines() if line.startswith("Internal error: ")]
        ended = [f"The training ended in an exception: {facts.error}"] if facts.error else []
        unlearnt = nothing_learnt(self.evidence, self.causes)
        return [*self.notes, *ended, *self.evidence.unchecked, *unlearnt, *failed]

    @property
    def architecture(self) -> list[str]:
        """What the model is made of, and how its training goes by what the loop recorded, in sentences.

        Without a report, what the facts say of the model.
        """
        if self.text:
            return [line.removeprefix(ARCHITECTURE) for line in self._lines("architecture")]
        return list(architecture_lines(self.evidence.facts))

    @property
    def time(self) -> list[str]:
        """Where the time and the memory go, in sentences."""
        if stated := self._lines("time"):
            return stated
        waiting = data_waiting(self.evidence)
        return [] if waiting is None else [waiting_line(waiting)]

    @property
    def _alerted(self) -> str:
        """The warnings and errors of a training that nothing observed; empty where it has none."""
        alerts = [finding for finding in self.evidence.findings if finding.is_problem]
        if not alerts:
            return ""
        errors = [alert for alert in alerts if alert.level == "error"]
        counts = [counted(len(errors), "errors")] if errors else []
        if len(alerts) > len(errors):
            counts.append(counted(len(alerts) - len(errors), "warnings"))
        first = (errors or alerts)[0]
        said = f"{first.name}: {first.evidence}" if first.name else first.evidence
        return (
            f"{' and '.join(counts)} alerted, the first at step {first.step:,}: {_shortened(first.kind, 80)}: "
            f"{_shortened(said, 200)}. No session has observed this training: nothing else can be said."
        )

    def _lines(self, part: str) -> list[str]:
        found = []
        for line in self.text.splitlines():
            for start, name in _PARTS.items():
                if name == part and line.startswith(start):
                    found.append(line.removeprefix(start) if name in _BARE else line)
        return found


def _shortened(text: str, most: int) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= most else f"{line[: most - 1]}…"
