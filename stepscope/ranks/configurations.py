"""Ranks that are configured differently, by the facts that each has stored."""

from collections.abc import Iterator
from typing import Any

from tracker_adapters.store.reading.rank_values import read_rank_text

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import FACTS_NAME, Facts
from debuggers.diagnosis.rank_facts import RankFacts
from debuggers.diagnosis.stored_facts import decode
from stepscope.ranks.findings import rank_finding
from stepscope.ranks.last_start import LastStart

_MOST = 8
_RULE = "ranks of data-parallel training have the same optimizer, settings, layers, loss and precision"


def different_configurations(start: LastStart) -> Iterator[Finding]:
    """Yields a finding for each of the first eight ranks that differ from the first, with what differs first."""
    reference: tuple[int, dict[str, Any]] | None = None
    told = 0
    for rank, known in start.facts.items():
        if known.strategy not in ("ddp", "fsdp") or told == _MOST:
            continue
        text = read_rank_text(start.record, rank, f"{start.prefix}{FACTS_NAME}")
        if text is None:
            continue
        facts = decode(text)[0]
        settings = dict(_settings(facts))
        if reference is None:
            reference = rank, settings
            continue
        first, theirs = reference
        differing = [name for name in theirs.keys() | settings.keys() if theirs.get(name) != settings.get(name)]
        if differing:
            told += 1
            name = min(differing)
            more = f", and {len(differing) - 1} more settings" if len(differing) > 1 else ""
            evidence = f"{name} is {settings.get(name)!r}, and {theirs.get(name)!r} on rank {first}{more}"
            yield rank_finding(
                "configuration_differs", f"rank {rank}", 0, facts.last_step, evidence=evidence, rule=_RULE
            )


def _settings(facts: Facts) -> Iterator[tuple[str, Any]]:
    """What must be equal, by name; settings at the first step."""
    yield "the model's class", facts.model
    yield "the optimizer's class", facts.optimizer
    yield "the precision", facts.mixed_precision
    yield "the loss", "" if facts.loss is None else facts.loss.kind
    for number, group in enumerate(facts.groups):
        for name, value in group.settings.items():
            yield f"{name} of the optimizer's group {number}", value
    for layer in facts.layers:
        yield f"layer {layer.name}", layer.kind if layer.value is None else f"{layer.kind}({layer.value:g})"


def names_apart(ranks: dict[int, RankFacts]) -> str:
    """Returns in one sentence that ranks hold different parameters, as in pipeline parallelism; empty where not.

    Of ranks that name none, as without records, it is not known.
    """
    first: tuple[int, frozenset[str]] | None = None
    for rank, facts in ranks.items():
        names = frozenset(facts.parameters)
        if not names:
            continue
        if first is None:
            first = rank, names
        elif names != first[1]:
            odd = min(names ^ first[1])
            holder, other = (rank, first[0]) if odd in names else (first[0], rank)
            return f"the ranks hold different parameters: rank {holder} has {odd}, rank {other} has not"
    return ""
