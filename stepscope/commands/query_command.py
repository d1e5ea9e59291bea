"""``stepscope query``: read-only SQL over what runs hold."""

import sys
from typing import Any

import click

from stepscope.commands.common import one_line_errors, ranks_option, say_unmatched
from stepscope.commands.consoles import console


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
    help="The output format.",
)
@click.option("--names", multiple=True, metavar="PATTERN", help="Only these names; may be given several times.")
@ranks_option
@click.option("--steps", metavar="FIRST:LAST", help="Only these steps; either end may be omitted.")
@click.option(
    "--all-attempts", is_flag=True, help="Include earlier attempts at steps that were recorded again after a resume."
)
@click.option("--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Time limit in seconds.")
@one_line_errors
def command(runs: tuple[str, ...], output_format: str, **options: Any) -> None:
    """Run one SELECT statement over runs; nothing is written.

    Tables of artifacts: scalars, histograms, images, texts, alerts, tables, pages, files, curves. They have the columns
    run, rank, attempt, name, step and time_ns. Further tables: series, attempts, runs. In scalars, value is NULL for
    NaN. In histograms, pass data to percentile(data, 99), histogram_edges(data) or histogram_counts(data).
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
