"""The confusion table of the zoo: detected, named first, named among the first three, and false alarms."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

_ALARMS = ("warning", "critical")


class Judged(Protocol):
    """An outcome, see ``examples.zoo.run.Outcome``."""

    case: str
    family: str
    variant: str
    mode: str
    seed: int
    label: str
    also: tuple[str, ...]
    quality: float
    causes: tuple[tuple[str, float], ...]
    health: str
    error: str


def detected(outcome: Judged) -> bool:
    """Whether there is any cause, or a verdict that is not healthy."""
    return bool(outcome.causes) or outcome.health in _ALARMS


def named(outcome: Judged, among: int) -> bool:
    """Whether what is wrong is among the first causes."""
    right = {outcome.label, *outcome.also}
    return any(code in right for code, _ in outcome.causes[:among])


def table(outcomes: Sequence[Judged]) -> str:
    """Returns shares by mode and family, then what was wrong, as text."""
    lines = []
    for mode in dict.fromkeys(outcome.mode for outcome in outcomes):
        of_mode = [outcome for outcome in outcomes if outcome.mode == mode]
        lines += ["", f"{mode:24} {'sick':>5} {'detected':>9} {'top-1':>6} {'top-3':>6} {'sound':>6} {'alarms':>7} "
                      f"{'verdicts':>9}"]  # fmt: skip
        families = sorted({outcome.family for outcome in of_mode})
        for family in [*families, ""]:
            lines.append(_row(family or "all", [one for one in of_mode if family in ("", one.family)]))
        lines += _wrong(of_mode)
    return "\n".join(lines[1:])


def _row(name: str, outcomes: Sequence[Judged]) -> str:
    sick = [outcome for outcome in outcomes if outcome.label]
    sound = [outcome for outcome in outcomes if not outcome.label]

    def share(is_so: Callable[[Judged], bool]) -> str:
        return f"{sum(map(is_so, sick)) / len(sick):.0%}" if sick else "-"

    alarms = sum(bool(outcome.causes) for outcome in sound)
    verdicts = sum(outcome.health in _ALARMS for outcome in sound)
    return (
        f"{name:24} {len(sick):5} {share(detected):>9} {share(lambda one: named(one, 1)):>6} "
        f"{share(lambda one: named(one, 3)):>6} {len(sound):6} {alarms:7} {verdicts:9}"
    )


def _wrong(outcomes: Sequence[Judged]) -> list[str]:
    """What was not named first, was a false alarm or ended in an exception, with how many seeds."""
    found: Counter[str] = Counter()
    for outcome in outcomes:
        codes = ", ".join(f"{code} {confidence:.2f}" for code, confidence in outcome.causes[:3])
        if outcome.error:
            found[f"{outcome.case} ({outcome.variant}) ended: {outcome.error.splitlines()[0]}"] += 1
        if outcome.label and not named(outcome, 1):
            found[f"{outcome.case}: {outcome.label}, said: {codes or 'nothing'} ({outcome.health})"] += 1
        if not outcome.label and detected(outcome):
            found[f"{outcome.case} ({outcome.variant}) is sound, said: {codes or outcome.health}"] += 1
    return [f"  {count} × {line}" for line, count in sorted(found.items())]
