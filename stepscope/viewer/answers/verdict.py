"""What is wrong with a run, since when, why and what to try, with the names of the series that show it."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

from tracker_adapters.store.reading.record import RunRecord

from debuggers.detectors.finding import names_in
from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.evidence import Evidence
from stepscope.diagnosing.stored_evidence import stored_name
from stepscope.report_pages.areas import AREAS, AreaHealth, health_by_area
from stepscope.report_pages.cause_signals import UNITS, pictures_of
from stepscope.report_pages.content import ReportContent
from stepscope.report_pages.stored_contents import stored_contents
from stepscope.runs.places import open_record
from stepscope.viewer.answers.answer import Answer, NotFound, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.answers.recent import Recent
from stepscope.viewer.watched_runs import RunList

GLANCE: Final = ("loss", "validation/loss", "total_norm/gradients", "learning_rate", "update_ratio", "accuracy")
"""Signals that are shown of each training, where it has them."""
MOST_FINDINGS = 500
_MOST_ALERTS = 200
_MOST_NAMES = 40
_ORDER = {"bad": 0, "warn": 1, "": 2, "good": 3}
_verdicts: Recent[dict[str, Any]] = Recent(64)


def verdict_answer(runs: RunList, query: Query) -> Answer:
    """``verdict?run=K``: what each session of a run found, the worst first; ``scope=S`` for those of one scope.

    ``state``, ``verdict`` and ``causes`` are those of the worst one: ``bad``, ``warn``, ``good``, or empty where
    nothing can be said. ``sessions`` have the whole: causes with the names of the series that show them, areas,
    findings, what was measured, what it cost, what was left out, and the report's text. ``alerts`` are those that no
    finding tells; ``damage`` says which parts of the store could not be read, and so are in none of it. Of a run that
    lives, the answer is made anew as often as that is cheap, and says whether the run is further: ``behind``.
    """
    key = query.run()
    place, head = runs.run(key).place, runs.run(key).head()
    live, asked_at = head.live, runs.position(key)

    def compute(before: dict[str, Any] | None) -> dict[str, Any]:
        # A record of its own: what takes a second or two must not keep the answers that share one waiting.
        with closing(open_record(place)) as record:
            return verdict_of(record)

    position, found = _verdicts.get(key, asked_at, compute, live=live)
    scope = query.text("scope", "")
    if scope:
        sessions = [one for one in found["sessions"] if one["scope"] == scope]
        if not sessions:
            raise NotFound(f"scope is {scope[:200]!r}; expected one of {', '.join(map(repr, found['scopes']))}")
        found = {**found, **_worst(sessions), "sessions": sessions}
    found = {**found, "damage": list(dict.fromkeys([*filter(None, [head.damage.text]), *found["damage"]]))}
    behind = position != asked_at
    return json_answer({"position": position, "behind": behind, "live": live, **found}, position, is_behind=behind)


def verdict_of(record: RunRecord) -> dict[str, Any]:
    """Returns the verdict of a run as plain values, as ``verdict_answer`` describes it."""
    contents = stored_contents(record)
    sessions = sorted((_session(content, record) for content in contents), key=_badness)
    scopes = sorted({session["scope"] for session in sessions})
    told = {f"{one['scope']}/{found['kind']}".lstrip("/") for one in sessions for found in one["findings"]}
    alerts = [
        {"name": alert.name, "step": alert.step, "level": alert.level, "message": alert.message}
        for alert in record.alerts()
        if alert.name not in told
    ]
    damage = record.damage()
    if record.damaged and not damage:
        damage = ["rows of the store could not be read"]
    shown = {"scopes": scopes, "sessions": sessions, "alerts": alerts[:_MOST_ALERTS]}
    return {**_worst(sessions), **shown, "damage": list(dict.fromkeys(damage))}


def _worst(sessions: list[dict[str, Any]]) -> dict[str, Any]:
    first = sessions[0]
    return {key: first[key] for key in ("state", "verdict", "causes")}


def _badness(session: dict[str, Any]) -> tuple[int, float]:
    return _ORDER[session["state"]], -max((cause["confidence"] for cause in session["causes"]), default=0.0)


def _session(content: ReportContent, record: RunRecord) -> dict[str, Any]:
    evidence = content.evidence
    findings = sorted(evidence.findings, key=lambda one: (one.step, not one.is_problem))
    stored = {info.name for info in record.names(content.rank)}
    known = _tensors_and_modules(evidence)
    return {
        "title": content.title,
        "scope": content.scope,
        "rank": content.rank,
        "running": content.running,
        "observed": content.is_observed,
        "state": content.state,
        "verdict": content.verdict,
        "earlier": content.earlier,
        "steps": evidence.facts.steps,
        "last_step": evidence.facts.last_step,
        "causes": [_cause(cause, content, stored, known) for cause in content.causes],
        "areas": [_area(one, content) for one in health_by_area(content)],
        "glance": list(_shown(((name, [""]) for name in GLANCE if len(evidence[name])), content, stored)),
        "findings": [
            {key: getattr(one, key) for key in _FINDING} | _tensors(one.name, known) for one in findings[:MOST_FINDINGS]
        ],
        "more_findings": max(0, len(findings) - MOST_FINDINGS),
        "measured": content.measured,
        "cost": content.cost,
        "left_out": content.left_out,
        "architecture": content.architecture,
        "time": content.time,
        "text": content.text,
    }


_FINDING: Final = ("step", "last_step", "steps", "kind", "name", "level", "evidence", "rule", "ongoing")


def _cause(cause: Cause, content: ReportContent, stored: set[str], known: frozenset[str]) -> dict[str, Any]:
    pictures = ((name, ["" if tensor == name else tensor for tensor in lines])
                for name, lines in pictures_of(cause, content.evidence))  # fmt: skip
    where = [{"name": name, "tensor": name in known} for name in cause.where[:_MOST_NAMES]]
    return {
        "code": cause.code,
        "title": cause.title,
        "confidence": cause.confidence,
        "since_step": cause.since_step,
        "where": where,
        "more_where": max(0, len(cause.where) - _MOST_NAMES),
        "evidence": cause.evidence,
        "against": cause.against,
        "advice": cause.advice,
        "series": list(_shown(pictures, content, stored)),
    }


def _shown(
    signals: Iterable[tuple[str, list[str]]], content: ReportContent, stored: set[str]
) -> Iterable[dict[str, Any]]:
    """Yields each signal with the names of the scalars that hold it; ``tensors`` has "" for one of the whole step."""
    for signal, tensors in signals:
        names = [stored_name(signal, tensor, content.scope) for tensor in tensors]
        if names[0] not in stored and f"{names[0]}/0" in stored:  # the learning rate of the first of several groups
            names = [f"{names[0]}/0"]
        yield {"signal": signal, "unit": UNITS.get(signal, ""), "names": names, "tensors": tensors}


def _area(health: AreaHealth, content: ReportContent) -> dict[str, Any]:
    codes = next((area.codes for area in AREAS if area.name == health.name), ())
    causes = [cause.code for cause in content.causes if cause.code in codes]
    return {"name": health.name, "state": health.state, "word": health.word, "text": health.text, "causes": causes}


def _tensors(name: str, known: frozenset[str]) -> dict[str, Any]:
    """The tensors that a finding names, and how many more it has: one that is told by an alert alone has several."""
    listed, more = ([name], 0) if name in known else names_in(name)
    are_known = known.issuperset(listed)
    return {"tensors": listed if are_known else [], "more_tensors": more if are_known else 0}


def _tensors_and_modules(evidence: Evidence) -> frozenset[str]:
    """The names of parameters and layers, and of the modules that have them."""
    names = {one.name for one in evidence.facts.parameters} | {one.name for one in evidence.facts.layers}
    names.update(tensor for tensors in evidence.tensors.values() for tensor in tensors)
    inner = {name[:end] for name in names for end, sign in enumerate(name) if sign == "."}
    return frozenset(names | inner) - {""}
