"""What runs are compared by: configuration, metrics, verdict and causes, one run after the other."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tracker_adapters.store.reading.record import NameInfo, RunRecord, ScalarSeries
from tracker_adapters.values.metric_names import by_weight, last_step, metrics_first

from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.diagnosing.stored_evidence import scopes, stored_evidence
from stepscope.diagnosing.stored_reports import stored_reports
from stepscope.report_pages.content import ReportContent
from stepscope.viewer.answers.answer import Answer, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList

MOST_METRICS = 24
MOST_NAMES = 1000
MOST_VALUES = 200_000
"""Beyond so many values of a metric its extremes come from the roll-ups, which know no step of theirs."""


def compare_answer(runs: RunList, query: Query) -> Answer:
    """``compare?runs=K,K&metrics=NAMES&at=S``: a row for each run; the page asks for one run after the other.

    ``metrics`` has one name a line. Of each the last value, the lowest and the highest with their steps, and with
    ``at`` the last value up to this step. Without ``metrics``, those that a person would name first. Values that are
    not finite are no extremes.
    """
    wanted = [name for name in query.text("metrics", "").split("\n") if name]
    at = query.number("at", low=-1.0, high=float(2**63)) if query.text("at", "") else None
    rows, positions = [], []
    for key in query.runs():
        with runs.opened(key) as record:
            positions.append(runs.position(key))
            rows.append({"key": key} | compared(record, wanted, at))
    return json_answer({"runs": rows}, ",".join(positions))


def causes_answer(runs: RunList, query: Query) -> Answer:
    """``causes?run=K``: what is wrong in each session of a run, most likely first; ``observed``: whether any looked."""
    key = query.run()
    with runs.opened(key) as record:
        return json_answer(causes_of(record), runs.position(key))


def causes_of(record: RunRecord) -> dict[str, Any]:
    """Returns the causes of all scopes of a run's first rank, and whether a session has observed one of them."""
    sessions = []
    for scope in scopes(record):
        evidence = stored_evidence(record, scope)
        sessions.append(ReportContent(title="", causes=tuple(diagnose(evidence)), evidence=evidence, scope=scope))
    causes = [
        {
            "scope": session.scope,
            "code": cause.code,
            "title": cause.title,
            "confidence": cause.confidence,
            "since_step": cause.since_step,
        }
        for session in sessions
        for cause in session.causes
    ]
    return {"causes": causes, "observed": any(session.is_observed for session in sessions)}


def compared(record: RunRecord, wanted: Sequence[str], at: float | None) -> dict[str, Any]:
    """Returns the row of one run; see ``compare_answer``."""
    manifest, names = record.manifest, record.names(record.lowest_rank)
    scalars = {info.name: info for info in names if info.kind == "scalar"}
    chosen = [name for name in wanted if name in scalars] if wanted else metrics_first(scalars, MOST_METRICS)
    ended_ns = manifest.ended_ns
    stored = stored_reports(record)
    reports = [ReportContent(title="", text=report.text) for report in stored]
    verdicts = (report.marked(content.verdict) for report, content in zip(stored, reports, strict=True))
    states = {content.state for report, content in zip(stored, reports, strict=True) if report.is_last}
    return {
        "name": manifest.info.name,
        "status": manifest.info.status,
        "tags": list(manifest.info.tags),
        "created_ms": manifest.info.created_ns / 1e6,
        "seconds": None if ended_ns is None else (ended_ns - manifest.info.created_ns) / 1e9,
        "config": manifest.info.flat_config(),
        "verdict": "; ".join(verdicts),
        "state": next((state for state in ("bad", "warn", "good") if state in states), ""),
        "last_step": last_step((info.name, info.last_step) for info in names),
        "metrics": _metrics(record, [scalars[name] for name in chosen], at),
        "names": by_weight(scalars)[:MOST_NAMES],
    }


def _metrics(record: RunRecord, infos: Sequence[NameInfo], at: float | None) -> dict[str, dict[str, Any]]:
    short = [info.name for info in infos if info.count <= MOST_VALUES or at is not None]
    stored = record.many_scalars(short, record.lowest_rank)
    found = {}
    for info in infos:
        one: dict[str, Any] = {"last": info.last_value, "step": info.last_step}
        if info.name in stored:
            one |= _extremes(stored[info.name], at)
        elif info.name not in short:
            ranges = record.scalar_ranges(info.name, record.lowest_rank, max_ranges=1)
            one |= {"lowest": float(np.fmin.reduce(ranges.min)), "highest": float(np.fmax.reduce(ranges.max))}
        found[info.name] = one
    return found


def _extremes(series: ScalarSeries, at: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    finite = np.flatnonzero(np.isfinite(series.values))
    if len(finite):
        values = series.values[finite]
        low, high = finite[np.argmin(values)], finite[np.argmax(values)]
        found = {"lowest": float(series.values[low]), "lowest_step": int(series.steps[low])}
        found |= {"highest": float(series.values[high]), "highest_step": int(series.steps[high])}
    if len(finite) < len(series):
        found["not_finite"] = len(series) - len(finite)
    if at is not None:
        place = int(np.searchsorted(series.steps, math.floor(at), side="right")) - 1
        if place >= 0:
            found |= {"at": float(series.values[place]), "at_step": int(series.steps[place])}
    return found
