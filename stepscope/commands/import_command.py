"""``stepscope import``: event files and pages become runs."""

from pathlib import Path

import click

from stepscope.commands.common import echo, one_line_errors
from stepscope.commands.consoles import progress_line


@click.command("import", epilog="\b\nExample:\n  stepscope import lightning_logs --output runs")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="The folder for the runs.",
)
@one_line_errors
def command(folder: Path, output: Path) -> None:
    """Convert TensorBoard event files and debug pages in DIR to runs.

    Each folder with event files becomes a run, and so do folders with pages of debug outputs, such as epoch_4/debugger.
    DIR is only read, and nothing in it is executed. Items that cannot be imported are skipped and named.
    """
    from stepscope.importing import import_runs

    with progress_line() as say:
        imported = import_runs(folder, output, progress=lambda root: say(f"reading {root}"))
    for one in imported:
        counts = ", ".join(f"{count:,} {kind}{'s' if count > 1 else ''}" for kind, count in one.counts.items())
        echo(f"{one.run}: {counts or 'nothing'}")
        for line in one.skipped.lines():
            echo(f"stepscope: skipped: {line}", err=True)
