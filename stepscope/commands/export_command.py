"""``stepscope export``: runs as CSV, Parquet or JSON lines."""

from typing import Any

import click

from stepscope.commands.common import echo, one_line_errors, ranks_option, say_unmatched
from stepscope.commands.consoles import console, progress_line


@click.command(
    "export", epilog="\b\nExample:\n  stepscope export runs/ --names 'gradient_norm/*' --names loss --format parquet"
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["csv", "parquet", "jsonl"]),
    default="csv",
    show_default=True,
    help="The file format of the tables.",
)
@click.option(
    "--output",
    default="export",
    show_default=True,
    help="The folder or URL for the tables; it must be empty.",
)
@click.option(
    "--names",
    multiple=True,
    metavar="PATTERN",
    help="Only these names, such as 'gradient_norm/*'; may be given several times.",
)
@click.option("--kinds", metavar="KIND,...", help="Only these kinds: scalar, histogram, image, text, alert, ...")
@ranks_option
@click.option("--steps", metavar="FIRST:LAST", help="Only these steps; either end may be omitted.")
@click.option(
    "--all-attempts", is_flag=True, help="Include earlier attempts at steps that were recorded again after a resume."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing export in the output folder.")
@one_line_errors
def command(runs: tuple[str, ...], output: str, file_format: Any, **options: Any) -> None:
    """Write runs as tables in CSV, JSON lines or Parquet, one per kind.

    RUN is a run's folder or URL, a folder that contains runs, or a pattern such as 'runs/*'.
    """
    from stepscope.export import export_runs

    with progress_line() as say:
        exported = export_runs(
            runs,
            output,
            format=file_format,
            names=options["names"],
            kinds=options["kinds"].split(",") if options["kinds"] else (),
            ranks=options["ranks"],
            steps=options["steps"],
            all_attempts=options["all_attempts"],
            overwrite=options["overwrite"],
            progress=lambda run, rows: say(f"run {run}: {rows:,} rows"),
        )
    output_console = console()
    for table, rows in exported.rows.items():
        output_console.print(f"{table}: {rows:,} rows", highlight=False)
    say_unmatched(exported.unmatched)
    if exported.missing:
        echo(f"stepscope: the content of {exported.missing} artifacts is missing in the runs", err=True)
    if exported.damaged:
        echo(f"stepscope: {exported.damaged} damaged artifacts in the runs were skipped", err=True)
    echo(exported.output)
