"""``stepscope demo``: a real training run, watched through every sink, and one that goes wrong beside it."""

import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from tracker_adapters.artifacts import KINDS
from tracker_adapters.config import SinkConfig, choose_sinks
from tracker_adapters.errors import MissingPackageError
from tracker_adapters.redaction import redact
from tracker_adapters.registry import load_sink

from stepscope.commands.consoles import SafeConsole
from stepscope.runs.opening import Run, open_run, read_run

if TYPE_CHECKING:
    from stepscope.demo.training import Trainer

CLOSE_TIMEOUT_S = 120.0
TOO_HIGH = 0.5
"""The learning rate of the training that goes wrong: fifty times that of the other."""


def run_demo(output: Path | None, *, epochs: int, sinks: Sequence[str], console: Console | None = None) -> Run:
    """Trains the digits network, delivers to ``sinks``, and prints what arrived and how to look at it.

    Then it trains the network with a learning rate that is too high, into ``<output>-lr-0.5`` and no sink, so that the
    viewer has a cause to show and two runs to compare.

    Args:
        output: The run's folder; ``runs/demo-<time>`` by default.
        epochs: Passes over the training images.
        sinks: As for ``open_run``.
        console: Where to print; standard output by default.

    Returns:
        The closed run, of the training that goes well.

    Raises:
        SinkConfigError: For a sink that is unknown or configured wrongly.
        MissingPackageError: When torch, scikit-learn or a sink's package is not installed.
    """
    folder = output or Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    choose_sinks(list(sinks), folder.absolute())  # what is wrong with them is said before torch is imported
    try:
        from stepscope.demo.training import CONFIG, Trainer
    except ImportError as error:
        raise MissingPackageError(f"the demo cannot import {error.name}: pip install 'stepscope[demo]'") from error
    console = console or SafeConsole()
    run = open_run(folder, sinks=list(sinks), config=CONFIG | {"epochs": epochs}, tags=["demo"])
    start = time.monotonic()
    with run:
        trainer = Trainer(run, epochs=epochs)
        _train(trainer, console)
        trained_s, trained_ns = time.monotonic() - start, time.time_ns()
        with console.status("delivering the remaining artifacts…"):
            run.finish("finished", timeout=CLOSE_TIMEOUT_S)
    console.print(
        f"\ntrained in {trained_s:.1f} s to {trainer.accuracy:.1%} of {trainer.validation_size} unseen digits; "
        f"closed after {time.monotonic() - start:.1f} s"
    )
    console.print(delivery_table(run, trained_ns))
    console.print(f"\nthe same training with a learning rate of {TOO_HIGH}, which is too high:")
    config = CONFIG | {"epochs": epochs, "optimizer": CONFIG["optimizer"] | {"max_learning_rate": TOO_HIGH}}
    with open_run(f"{run.path}-lr-{TOO_HIGH}", sinks=[], config=config, tags=["demo"]) as sick:
        _train(Trainer(sick, epochs=epochs, config=config, pages=False), console)
    console.print()
    for line in _how_to_look(run, sick):
        # A command that is broken into two lines cannot be copied.
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return run


def _train(trainer: "Trainer", console: Console) -> None:
    """Trains to the end, with a bar."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  accuracy {task.fields[accuracy]:.1%}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=trainer.total_steps, loss=float("nan"), accuracy=0.0)
        for loss, accuracy in trainer.steps():
            progress.update(task, advance=1, loss=loss, accuracy=accuracy)
        progress.update(task, accuracy=trainer.accuracy)


def delivery_table(run: Run, trained_ns: int) -> Table:
    """Returns a column for each sink: artifacts by kind, how many were delivered, and how long after the training."""
    with read_run(run.path) as record:
        kinds: Counter[str] = Counter()
        for info in record.names():
            kinds[info.kind] += info.count
    stats = run.stats
    table = Table(title=f"artifacts: {stats.emitted} emitted, {stats.stored} stored", title_justify="left")
    table.add_column("kind")
    for name in stats.sinks:
        table.add_column(escape(name), justify="right")
    sinks = stats.sinks.values()
    for kind in KINDS:
        # What has arrived so far is counted as a whole, not by kind.
        table.add_row(kind, *("–" if sink.pending else str(kinds[kind]) for sink in sinks))
    table.add_section()
    table.add_row("delivered", *(str(sink.delivered) for sink in sinks))
    table.add_row("pending", *(str(sink.pending) for sink in sinks))
    table.add_row("failed", *(str(sum(sink.failed.values())) for sink in sinks))
    delays = [max(0.0, (sink.updated_ns - trained_ns) / 1e9) for sink in sinks]
    table.add_row("done after training", *(f"{delay:.1f} s" for delay in delays))
    return table


def _how_to_look(run: Run, sick: Run) -> list[str]:
    """The commands, one a line, with paths from the working folder."""
    lines = ["look at the run"]
    for config in run.sinks:
        if isinstance(config, SinkConfig):
            sink = load_sink(config.type)
            command = redact(_with_path(sink.look(config.options)))
            lines.append(f"{config.type:<12} {_from_here(command)}")
            if page := getattr(sink, "first_page", ""):
                lines.append(f"{'':<12} {page}")
    good, bad = (shlex.quote(str(one.path)) for one in (run, sick))
    for what, command in (("here", f"ls {good}"), ("in a page", f"view {good} {bad}")):
        lines.append(f"{what:<12} {_from_here(_with_path(f'stepscope {command}'))}")
    return lines


def _from_here(command: str) -> str:
    here = f"{Path.cwd()}/"
    return command if here == "//" else command.replace(here, "")


def _with_path(command: str) -> str:
    """Puts the interpreter's folder before a command that the shell would not find, as in a fresh environment."""
    name, _, arguments = command.partition(" ")
    beside = Path(sys.executable).parent / name
    if "/" in name or shutil.which(name) or not beside.exists():
        return command
    shown = beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside
    return f"{shown} {arguments}"
