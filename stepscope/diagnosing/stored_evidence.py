"""The evidence that a run has stored: signals, facts and findings, also of a training that was killed."""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Self

from msgspec.structs import replace
from tracker_adapters.artifacts import Alert, Text
from tracker_adapters.errors import DamagedError
from tracker_adapters.reports import REPORT_NAME
from tracker_adapters.store.reading.record import RunRecord, ScalarSeries

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import FACTS_NAME, Facts
from debuggers.diagnosis.series import Series, thinned
from debuggers.diagnosis.signals import OF_A_STEP, OF_LAYERS, OF_PARAMETERS, PREFIX, RECORDED_ELSEWHERE
from debuggers.diagnosis.stored_facts import decode
from stepscope.ranks.comparison import RankComparison, compare_ranks


def scopes(record: RunRecord) -> list[str]:
    """Returns the scopes of the run's sessions, such as ``D`` after ``run.scoped("D")``; ``""`` for one without.

    They are those of the lowest rank that there is.
    """
    ends = (FACTS_NAME, f"{PREFIX}update_ratio", "total_norm/gradients")
    found = {
        info.name.removesuffix(end).rstrip("/")
        for info in record.names(record.lowest_rank)
        for end in ends
        if f"/{info.name}".endswith(f"/{end}")
    }
    return sorted(found) or [""]


def stored_evidence(record: RunRecord, scope: str = "", rank: int | None = None) -> Evidence:
    """Returns the evidence of a run's session; of several that came one after the other, as of attempts, of the last.

    Args:
        record: The run.
        scope: The session's scope.
        rank: Whose; by default that of the first rank, which mostly speaks for all, and is compared with the others.
    """
    rank = record.lowest_rank if rank is None else rank
    prefix = f"{scope}/" if scope else ""
    names = [info.name for info in record.names(rank) if info.kind == "scalar"]
    texts = _Texts.of(record, prefix, rank)
    facts, findings, stored_ns = texts.latest()
    since = _last_session(record, rank, texts, facts)
    series, tensors = _series(record, prefix, names, rank, since)
    found = (*findings, *_from_alerts(record, prefix, findings, rank, stored_ns, since=since))
    facts = _with_steps(facts, series)
    if rank == record.lowest_rank:
        ranks = compare_ranks(record, scope)
        found = (*found, *ranks.findings)
        facts = _with_ranks(facts, ranks)
    return Evidence(
        findings=tuple(sorted(found, key=lambda one: one.step)),
        series=series,
        tensors=_in_order(tensors, facts),
        facts=facts,
    )


def stored_facts(record: RunRecord, scope: str = "", rank: int = 0) -> Facts:
    """Returns what a session knew of its training when it stored that last; nothing where it never did."""
    last = last_text(record, scoped(FACTS_NAME, scope), rank)
    return Facts() if last is None else decode(last.text)[0]


def stored_name(signal: str, tensor: str = "", scope: str = "") -> str:
    """Returns the name of the scalar in which a run holds a signal of ``signals``, of a tensor where it has many."""
    elsewhere = {one.name for one in RECORDED_ELSEWHERE}
    kept = signal in elsewhere or signal.startswith(("learning_rate/", "validation/"))
    return "/".join(filter(None, (scope, signal if kept else PREFIX + signal, tensor)))


class _Texts(NamedTuple):
    """What a session stored as texts, and those before it of its scope: what they knew, and their reports."""

    facts: list[Text]
    reports: list[Text]

    @classmethod
    def of(cls, record: RunRecord, prefix: str, rank: int) -> Self:
        """Reads them."""
        return cls(texts_of(record, prefix + FACTS_NAME, rank), texts_of(record, prefix + REPORT_NAME, rank))

    def latest(self) -> tuple[Facts, tuple[Finding, ...], int]:
        """Returns facts, findings, and when they were stored if that was at the end, when they are complete; else 0."""
        if not self.facts:
            return Facts(), (), 0
        last = max(self.facts, key=lambda text: text.time_ns)
        has_ended = any(report.time_ns >= last.time_ns for report in self.reports)
        return *decode(last.text), last.time_ns if has_ended else 0


class _Since(NamedTuple):
    """With what the last session of a scope begins.

    Attributes:
        step: Its first step; 0 where that is not known.
        time_ns: A time before it, and after what earlier ones recorded of the same steps; 0 without earlier ones.
    """

    step: int
    time_ns: int


def _last_session(record: RunRecord, rank: int, texts: _Texts, facts: Facts) -> _Since:
    """Returns where the last session begins.

    A session stores facts after its first step, and how many steps it has seen with all that it stores later. A
    training that restarts from a checkpoint repeats steps, and records something else of them.
    """
    first = facts.last_step - facts.steps + 1
    last_ns = max((text.time_ns for text in texts.facts), default=0)
    ends = [report.time_ns for report in texts.reports]
    begins = [attempt.began_ns for attempt in record.attempts(rank) if attempt.attempt > 1]
    before_ns = max((time_ns for time_ns in (*ends, *begins) if time_ns < last_ns), default=0)
    return _Since(first if first > 0 and any(text.step == first for text in texts.facts) else 0, before_ns)


def measured_steps(record: RunRecord, scope: str = "", rank: int | None = None) -> tuple[int, int] | None:
    """Returns at how many steps the norm of a single gradient was recorded, and the last of them; None for never.

    Of several sessions that came one after the other, it is that of the last, where its first step is known.
    """
    rank = record.lowest_rank if rank is None else rank
    prefix = f"{scope}/" if scope else ""
    texts = _Texts.of(record, prefix, rank)
    since = _last_session(record, rank, texts, texts.latest()[0])
    start = f"{prefix}gradient_norm/"
    scalars = [info for info in record.names(rank) if info.kind == "scalar" and info.name.startswith(start)]
    found = [info for info in scalars if info.last_step >= since.step]
    if not found:
        return None
    most, last = max(found, key=lambda info: info.count), max(info.last_step for info in found)
    if since == (0, 0):
        return most.count, last
    stored = record.many_scalars([most.name], rank)[most.name]
    steps = stored.steps[(stored.steps >= since.step) & (stored.times_ns >= since.time_ns)]
    return len(set(steps.tolist())), last


def last_text(record: RunRecord, name: str, rank: int) -> Text | None:
    """Returns the newest text of a name; None where there is none that can be read."""
    return max(texts_of(record, name, rank), key=lambda text: text.time_ns, default=None)


def scoped(name: str, scope: str) -> str:
    """Returns what a name of a session is in the run: behind its scope, if it has one."""
    return f"{scope}/{name}" if scope else name


def texts_of(record: RunRecord, name: str, rank: int) -> list[Text]:
    """The texts of a name; none where they cannot be read."""
    if not any(info.name == name for info in record.names(rank)):
        return []
    with suppress(DamagedError):
        return list(record.texts(name, rank))
    return []


def _series(
    record: RunRecord, prefix: str, names: list[str], rank: int, since: _Since
) -> tuple[dict[str, Series], dict[str, dict[str, Series]]]:
    step_names = {signal.name for signal in OF_A_STEP}
    tensor_names = {signal.name for signal in (*OF_PARAMETERS, *OF_LAYERS)}
    elsewhere = {signal.name for signal in RECORDED_ELSEWHERE}
    steps_of: dict[str, str] = {}
    tensors_of: dict[str, tuple[str, str]] = {}
    for full in names:
        if not full.startswith(prefix):
            continue
        name = full.removeprefix(prefix)
        if name in elsewhere or name.startswith(("learning_rate/", "validation/")):
            steps_of[full] = name
        elif name.startswith(PREFIX):
            name = name.removeprefix(PREFIX)
            signal, _, tensor = name.partition("/")
            if name in step_names:
                steps_of[full] = name
            elif signal in tensor_names and tensor:
                tensors_of[full] = signal, tensor
    series: dict[str, Series] = {}
    tensors: dict[str, dict[str, Series]] = {}
    stored = record.many_scalars([*steps_of, *tensors_of], rank)
    found = {full: _from_step(stored[full], since) for full in names if full in stored}
    for full, one in found.items():
        if not len(one):  # of an earlier session only
            continue
        if full in steps_of:
            series[steps_of[full]] = one
        else:
            signal, tensor = tensors_of[full]
            tensors.setdefault(signal, {})[tensor] = one
    group = next((name for name in series if name.startswith("learning_rate/")), None)
    if "learning_rate" not in series and group is not None:
        series["learning_rate"] = series[group]
    return series, tensors


def _from_step(stored: ScalarSeries, since: _Since) -> Series:
    """What a session's own series would hold of a stored one."""
    kept = (stored.steps >= since.step) & (stored.times_ns >= since.time_ns)
    return thinned(stored.steps[kept], stored.values[kept])


def _in_order(tensors: dict[str, dict[str, Series]], facts: Facts) -> dict[str, dict[str, Series]]:
    """In the model's order: a store has its names by themselves."""
    names = [*(one.name for one in facts.parameters), *(one.name for one in facts.layers)]
    places = {name: place for place, name in enumerate(names)}
    return {
        signal: dict(sorted(series.items(), key=lambda item: places.get(item[0], len(places))))
        for signal, series in tensors.items()
    }


def _with_steps(facts: Facts, series: dict[str, Series]) -> Facts:
    """A training that was killed had no time to say how far it came."""
    ends = [int(one.steps[-1]) for name in ("loss", "total_norm/gradients") if len(one := series.get(name, ())) > 0]  # type: ignore[union-attr]
    last = max([facts.last_step, *ends])
    return replace(facts, last_step=last, steps=max(facts.steps, facts.steps + last - max(facts.last_step, -1)))


def _from_alerts(
    record: RunRecord, prefix: str, known: tuple[Finding, ...], rank: int, stored_ns: int, *, since: _Since
) -> Iterator[Finding]:
    """The findings that only alerts tell of, since facts were stored last, of the last session.

    What a session began with and found out to be something else by its end is no finding: it is not in what it stored.
    """
    periods: dict[str, list[tuple[int, int]]] = {}
    for finding in known:
        periods.setdefault(finding.kind, []).append((finding.step, finding.last_step))
    for alert in record.alerts(rank):
        kind = alert.name.removeprefix(prefix)
        if not alert.name.startswith(prefix) or alert.level == "info":
            continue
        if alert.step < since.step or alert.time_ns < since.time_ns:
            continue
        if alert.time_ns <= stored_ns and kind in periods:
            continue
        # An alert comes at the step at which the rule has been broken for long enough.
        if not any(first <= alert.step <= last for first, last in periods.get(kind, ())):
            yield _finding(kind, alert)


def _finding(kind: str, alert: Alert) -> Finding:
    name, found, evidence = alert.message.partition(": ")
    return Finding.going_on(
        kind,
        name if found else "",
        [alert.step],
        level=alert.level,
        evidence=evidence.rpartition(" at step ")[0] or alert.message,
        rule="",
    )


def _with_ranks(facts: Facts, ranks: RankComparison) -> Facts:
    """The facts of the first rank with what the comparison of all ranks adds."""
    if ranks.world_size < 2:
        return facts
    kept = tuple(one for one in facts.invariants if one.name != ranks.invariant.name)
    invariants = (*kept, ranks.invariant) if ranks.invariant.checked else kept
    not_told = (*facts.not_told, *ranks.not_compared)
    return replace(facts, invariants=invariants, world_size=ranks.world_size, not_told=not_told)
