"""The command line: ``stepscope COMMAND``."""

from importlib import import_module
from pathlib import Path

import click

from stepscope.commands.common import one_line_errors, show_every_character

LAZY_COMMANDS: dict[str, str] = {
    "diagnose": "stepscope.commands.diagnose_command",
    "export": "stepscope.commands.export_command",
    "gc": "stepscope.commands.gc_command",
    "import": "stepscope.commands.import_command",
    "ls": "stepscope.commands.ls_command",
    "query": "stepscope.commands.query_command",
    "ranks": "stepscope.commands.ranks_command",
    "report": "stepscope.commands.report_command",
    "run": "stepscope.commands.run_command",
    "sync": "stepscope.commands.sync_command",
    "upload": "stepscope.commands.upload_command",
    "view": "stepscope.commands.view_command",
}
"""The modules of commands by name; each has the click command as ``command``."""


class LazyGroup(click.Group):
    """Imports a command's module when it is called or listed: ``stepscope ls`` need not wait for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all commands."""
        return sorted([*super().list_commands(ctx), *LAZY_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns a command; None for an unknown name."""
        if cmd_name in LAZY_COMMANDS:
            found: click.Command = import_module(LAZY_COMMANDS[cmd_name]).command
            return found
        return super().get_command(ctx, cmd_name)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stepscope", prog_name="stepscope")
def main() -> None:
    """See what happens inside a PyTorch training run, in the tracker you already use."""
    show_every_character()


@main.command()
@click.option("--output", type=click.Path(path_type=Path), default=None, help="The run's folder [runs/demo-<time>].")
@click.option("--epochs", type=click.IntRange(min=1), default=6, show_default=True, help="Number of epochs.")
@click.option(
    "--sinks",
    default="tensorboard,mlflow,wandb,local",
    show_default=True,
    help="The sinks: names separated by commas, each with an optional :target.",
)
@one_line_errors
def demo(output: Path | None, epochs: int, sinks: str) -> None:
    """Train a small digit classifier and show it in every tracker."""
    from stepscope.demo.run import run_demo

    run_demo(output, epochs=epochs, sinks=[sink.strip() for sink in sinks.split(",") if sink.strip()])


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@one_line_errors
def doctor(folder: Path | None) -> None:
    """Show versions, which sinks work here, what to install, and whether runs can lie in FOLDER.

    FOLDER is the working folder by default. Its files are timed.
    """
    from rich.markup import escape
    from rich.table import Table

    from stepscope.commands.consoles import console
    from stepscope.doctor import examine

    output = console()
    for title, rows in examine(folder):
        table = Table(title=title, title_justify="left", show_header=False)
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        output.print(table)
