"""``stepscope run``: an unchanged script, watched."""

import os
from pathlib import Path
from typing import get_args

import click

from stepscope.commands.common import one_line_errors
from stepscope.sessions.config import DebugConfig, Preset

EPILOG = """\b
Examples:
  stepscope run train.py --lr 0.1
  stepscope run --run runs/exp1 --sinks tensorboard,local -m package.train
  torchrun --standalone --nproc-per-node 2 -m stepscope run train.py
"""


@click.command(
    "run",
    epilog=EPILOG,
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
)
@click.option("--run", "folder", metavar="FOLDER", help="The run's folder [STEPSCOPE_RUN, or runs/<script>].")
@click.option("--sinks", default="local", show_default=True, help="The sinks: names separated by commas.")
@click.option("--preset", type=click.Choice(get_args(Preset)), default="standard", show_default=True,
              help="What is measured.")  # fmt: skip
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@one_line_errors
def command(
    script: str, arguments: tuple[str, ...], *, folder: str | None, sinks: str, preset: Preset, is_module: bool
) -> None:
    """Run SCRIPT with its ARGUMENTS, and watch what it trains. The script stays unchanged.

    Every torch optimizer is watched from its first step on. Models that the script watches itself are skipped. The
    verdict is printed at the end. Exit code, output and exceptions of the script do not change.
    """
    from stepscope.scripts.running import run_script

    name = script.rpartition(".")[2] if is_module else Path(script).stem
    run_script(
        script,
        arguments,
        is_module=is_module,
        folder=folder or os.environ.get("STEPSCOPE_RUN") or f"runs/{name or 'script'}",
        sinks=[sink.strip() for sink in sinks.split(",") if sink.strip()],
        config=DebugConfig.preset(preset),
    )
