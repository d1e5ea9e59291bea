"""``stepscope query``: read-only SQL over what runs hold."""

from __future__ import annotations

import sys
from typing import Any

import click

from stepscope.commands.common import console, one_line_errors, ranks_option, say_unmatched


@click.command(
    "query", epilog="\b\nExample:\n  stepscope query runs/exp1 \"select step, value from scalars where name = 'loss'\""
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN... SQL")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "jsonl"]),
    default="table",
    show_default=True,
    help="How the answer is written.",
)
@click.option("--names", multiple=True, metavar="PATTERN", help="Let the query see only these names.")
@ranks_option
@click.option("--steps", metavar="FIRST:LAST", help="Let it see only these steps; either end may be left out.")
@click.option("--all-attempts", is_flag=True, help="Also what was recorded again after a resume.")
@click.option("--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds at most.")
@one_line_errors
def command(runs: tuple[str, ...], output_format: str, **options: Any) -> None:
    """Answer one SELECT statement over what runs hold; nothing can be written.

    Tables: scalars, histograms, images, texts, alerts, tables, pages, files; series, attempts, runs. Each of the first
    eight has run, rank, attempt, name, step and time_ns; scalars have value, which is NULL for NaN. A histogram's
    data is for the functions percentile(data, 99), histogram_edges(data) and histogram_counts(data).
    """
    from stepscope.query import query_runs
    from stepscope.query.output import print_table, write_csv, write_json_lines

    if len(runs) < 2:
        raise click.UsageError("give the run and the SQL, such as: stepscope query RUN 'select * from series'")
    with query_runs(
        runs[:-1],
        runs[-1],
        names=options["names"],
        ranks=options["ranks"],
        steps=options["steps"],
        all_attempts=options["all_attempts"],
        timeout_s=options["timeout"],
    ) as result:
        say_unmatched(result.unmatched)
        if output_format == "table":
            print_table(result.columns, result, console())
        else:
            write = write_csv if output_format == "csv" else write_json_lines
            write(result.columns, result, sys.stdout)
