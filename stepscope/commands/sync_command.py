"""``stepscope sync``: carries runs into sinks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stepscope.commands.common import INTERRUPTED, echo, one_line_errors
from stepscope.commands.consoles import SafeConsole
from stepscope.runs.places import short_path
from stepscope.sync import SyncProgress, SyncResult, sync_runs

EXAMPLES = """\b
Examples:
  stepscope sync runs/exp1 --to tensorboard
  stepscope sync 'runs/2026-*' --to mlflow:http://127.0.0.1:5000
  stepscope sync runs/exp1 --to wandb --follow
"""
_MEANINGS = {
    "busy": "another process is delivering to it",
    "crashed": "its delivery process died repeatedly",
    "stopped": "interrupted",
}


@click.command("sync", epilog=EXAMPLES)
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--to",
    "sinks",
    multiple=True,
    required=True,
    metavar="SINK",
    help="A sink: its name, with an optional :target, or a TOML file. May be given several times.",
)
@click.option("--follow", is_flag=True, help="Follow live runs until they end.")
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The rank to deliver; each rank is a separate run in a tracker.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Parallel deliveries [number of processors].")
@one_line_errors
def command(runs: tuple[str, ...], sinks: tuple[str, ...], follow: bool, rank: int, jobs: int | None) -> None:
    """Deliver RUNS to more sinks, without gaps or duplicates.

    RUNS are run folders, folders that contain runs, or patterns. Runs may be finished, crashed, copied or live. Repeat
    the command to continue an interrupted sync. The exit code is 1 if artifacts remain.
    """
    try:
        with _bars() as show:
            results = sync_runs(runs, to=list(sinks), follow=follow, rank=rank, jobs=jobs, on_progress=show)
    except KeyboardInterrupt:
        echo("stepscope: interrupted; repeat the command to continue", err=True)
        sys.exit(INTERRUPTED)
    for result in results:
        echo(line_of(result))
    if not all(result.complete for result in results):
        sys.exit(1)


def line_of(result: SyncResult) -> str:
    """Returns one line that says how a sync ended."""
    parts = [f"{result.delivered} of {result.stored} artifacts delivered"]
    if result.pending:
        parts.append(f"{result.pending} pending")
    parts += [f"{count} not shown: {reason}" for reason, count in sorted(result.failed.items())]
    if result.outcome == "caught_up":
        parts.append("the run is still live")
    text = f"{short_path(result.run)} -> {result.sink} ({result.target}): {', '.join(parts)}"
    trouble = result.error or _MEANINGS.get(result.outcome, "")
    return f"{text}; {' '.join(trouble.split())}" if trouble else text


@contextmanager
def _bars() -> Iterator[Callable[[SyncProgress], None]]:
    """Progress bars with the time left, on a terminal only."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    console = SafeConsole(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[tuple[Path, str, str], Any] = {}

        def show(seen: SyncProgress) -> None:
            key = (seen.run, seen.sink, seen.target)
            if key not in tasks:
                description = escape(f"{seen.run.name} -> {seen.sink}")
                tasks[key] = progress.add_task(description, completed=seen.seq, total=seen.last_seq)
            progress.update(tasks[key], completed=seen.seq, total=seen.last_seq)

        yield show
