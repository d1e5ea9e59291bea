"""``stepscope ranks``: the ranks of a run side by side, and what tells one from the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stepscope.commands.common import echo, one_line_errors
from stepscope.commands.consoles import console
from stepscope.runs.folders import find_runs
from stepscope.runs.places import short_path
from stepscope.text_table import print_table

if TYPE_CHECKING:
    from stepscope.ranks.comparison import RankComparison

_MOST = 64
_COLUMNS = ("rank", "last step", "strategy", "elements", "step without waiting")


@click.command("ranks", epilog="\b\nExample:\n  stepscope ranks runs/exp1")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--scope", default="", help="The session's scope, such as D after run.scoped('D').")
@one_line_errors
def command(runs: tuple[str, ...], *, scope: str) -> None:
    """List the ranks of each RUN: last step, strategy, number of parameter elements, step time without waiting.

    The findings that need several ranks follow the table: ranks that are out of sync, have NaN, the same batches or
    different settings, are slow, hung, or missing. All ranks are compared, and the first 64 are listed.
    """
    from stepscope.ranks.comparison import compare_ranks
    from stepscope.runs.opening import read_run

    folders = find_runs(runs)
    for folder in folders:
        with read_run(folder) as record:
            ranks, compared = record.ranks, compare_ranks(record, scope)
        if len(folders) > 1:
            echo(short_path(folder))
        if compared.world_size < 2:
            echo("One rank." if ranks else "No rank has a store: nothing was recorded, or the folder is not whole.")
            continue
        rows = []
        for rank, step in list(compared.reached.items())[:_MOST]:
            facts = compared.facts[rank]
            own = f"{compared.own_ms[rank]:.3g} ms" if rank in compared.own_ms else ""
            elements = f"{sum(facts.parameters.values()):,}" if facts.placed else ""
            strategy = facts.strategy or "-"
            rows.append([str(rank), str(step) if step >= 0 else "-", strategy, elements, own])
        print_table(console(), _COLUMNS, rows, numbers=frozenset([0, 1, 3, 4]))
        echo("\n".join(_told(compared)))


def _told(compared: RankComparison) -> Iterator[str]:
    if compared.invariant.checked:
        yield f"Compared {compared.invariant.checked:,} pairs of checksums; {compared.invariant.broken:,} differ."
    for finding in compared.findings:
        yield f"{finding.level}: {finding.kind}: {finding.name}: {finding.evidence} (from step {finding.step})"
    for note in compared.not_compared:
        yield f"Not compared: {note}"
    if compared.findings:
        return
    if all(step < 0 for step in compared.reached.values()):
        yield "Nothing was compared: no rank took a step."
    elif not any(facts.placed for facts in compared.facts.values()):
        yield "Only losses, times and how far the ranks came were compared: none of them was watched."
    else:
        yield "The ranks agree in all that was compared."
