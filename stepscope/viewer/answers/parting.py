"""Where two runs part: settings that differ, and the first step at which each series does."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tracker_adapters.errors import RunError
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.values.metric_names import SYSTEM

from debuggers.diagnosis.comparison import Comparison, SeriesDifference, compare, in_order, series_difference
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series, thinned
from debuggers.diagnosis.signals import PREFIX
from stepscope.diagnosing.comparison_lines import comparison_lines, paired
from stepscope.diagnosing.stored_evidence import scopes, stored_evidence
from stepscope.viewer.answers.answer import Answer, BadRequest, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList

MOST_SERIES = 500
MOST_OTHERS = 300
MOST_VALUES = 100_000
"""Series that no session recorded are compared up to this number of them, and of values in each."""


def parting_answer(runs: RunList, query: Query) -> Answer:
    """``parting?a=K&b=K``: what differs between two runs, what parts first at the beginning.

    Signals are compared at the steps that both runs have; NaN equals NaN. ``beyond_noise`` is the first step at which
    two values differ by more than six times the typical change from one step to the next; null where none do. ``ranks``
    are those that are compared: the lowest of each run.
    """
    first, second = query.text("a"), query.text("b")
    if first == second:
        raise BadRequest(f"a and b are both {first[:100]!r}; expected two runs")
    # Always in one order, lest two threads wait for each other's run.
    low, high = sorted((first, second))
    with runs.opened(low) as one, runs.opened(high) as other:
        ours, theirs = (one, other) if low == first else (other, one)
        position = f"{runs.position(first)},{runs.position(second)}"
        return json_answer(parting(ours, theirs), position)


def parting(ours: RunRecord, theirs: RunRecord) -> dict[str, Any]:
    """Returns what differs between two runs; see ``parting_answer``."""
    configs = ours.info.flat_config(), theirs.info.flat_config()
    keys = dict.fromkeys([*configs[0], *configs[1]])
    config = [
        {"name": key, "first": _shown(configs[0], key), "second": _shown(configs[1], key)}
        for key in keys
        if configs[0].get(key) != configs[1].get(key) or (key in configs[0]) != (key in configs[1])
    ]
    pairs, alone = paired(scopes(ours), scopes(theirs))
    names = _scalars(ours), _scalars(theirs)
    sessions = [_session(ours, theirs, names, pair) for pair in pairs]
    seen = [{one[which] for session in sessions for one in session["compared_names"]} for which in (0, 1)]
    for session in sessions:
        del session["compared_names"]
    common = sorted((names[0] & names[1]) - seen[0] - seen[1], key=lambda name: (name.count("/"), name))
    return {
        "ranks": [ours.lowest_rank, theirs.lowest_rank],
        "config": config,
        "sessions": sessions,
        "alone": [list(one) for one in alone],
        "others": _others(ours, theirs, common[:MOST_OTHERS]),
        "left_out": max(0, len(common) - MOST_OTHERS),
    }


def _shown(config: dict[str, Any], key: str) -> Any:
    return config.get(key, "none")


def _scalars(record: RunRecord) -> set[str]:
    # What a machine was busy with is no difference between trainings.
    names = record.names(record.lowest_rank)
    return {info.name for info in names if info.kind == "scalar" and not info.name.startswith(SYSTEM)}


def _session(
    ours: RunRecord, theirs: RunRecord, names: tuple[set[str], set[str]], pair: tuple[str, str]
) -> dict[str, Any]:
    evidence = stored_evidence(ours, pair[0]), stored_evidence(theirs, pair[1])
    causes = diagnose(evidence[0]), diagnose(evidence[1])
    comparison = compare(*evidence)
    titles = [
        f"{record.info.name} ({scope})" if scope else record.info.name
        for record, scope in zip((ours, theirs), pair, strict=True)
    ]
    known = [
        *evidence[0].series,
        *(f"{signal}/{tensor}" for signal, members in evidence[0].tensors.items() for tensor in members),
    ]
    return {
        "scopes": list(pair),
        "settings": [{"name": one.name, "first": one.first, "second": one.second} for one in comparison.facts],
        "compared": comparison.compared,
        "series": _listed(comparison, names, pair),
        "causes": [
            [{"code": one.code, "title": one.title, "confidence": one.confidence} for one in found] for found in causes
        ],
        "text": "\n".join(comparison_lines(comparison, (titles[0], titles[1]), causes)),
        "compared_names": [tuple(_stored_name(name, names[i], pair[i]) for i in (0, 1)) for name in known],
    }


def _listed(comparison: Comparison, names: tuple[set[str], set[str]], pair: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        _difference(one) | {"names": [_stored_name(one.name, names[i], pair[i]) for i in (0, 1)]}
        for one in comparison.series[:MOST_SERIES]
    ]


def _difference(one: SeriesDifference) -> dict[str, Any]:
    return {
        "name": one.name,
        "since_step": one.since_step,
        "beyond_noise": one.beyond_noise,
        "first": one.first,
        "second": one.second,
    }


def _stored_name(name: str, stored: set[str], scope: str) -> str:
    """The name under which a run holds what evidence calls so; empty where it does not."""
    prefix = f"{scope}/" if scope else ""
    candidates = (f"{prefix}{name}", f"{prefix}{PREFIX}{name}", f"{prefix}{name}/0")
    return next((one for one in candidates if one in stored), "")


def _others(ours: RunRecord, theirs: RunRecord, names: Sequence[str]) -> dict[str, Any]:
    """The series that no session looks at, such as metrics of the loop's own."""
    found = []
    for name in names:
        with suppress(RunError):
            pair = [_series(record, name) for record in (ours, theirs)]
            if all(one is not None for one in pair):
                found.append(series_difference(name, *pair))  # type: ignore[arg-type]
    differ = in_order([one for one in found if one is not None])
    return {"compared": len(found), "series": [_difference(one) | {"names": [one.name] * 2} for one in differ]}


def _series(record: RunRecord, name: str) -> Series | None:
    ranges = record.scalar_ranges(name, record.lowest_rank, max_ranges=1)
    if int(ranges.counts.sum()) > MOST_VALUES:
        return None
    stored = record.scalars(name, record.lowest_rank)
    return thinned(stored.steps, stored.values)
