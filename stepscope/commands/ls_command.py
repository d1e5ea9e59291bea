"""``stepscope ls``: which runs there are, and what one holds."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table
from tracker_adapters.errors import StepscopeError
from tracker_adapters.remote.place import is_url
from tracker_adapters.store.layout import MANIFEST
from tracker_adapters.store.reading.record import NameInfo, RunRecord
from tracker_adapters.store.upkeep.retention import run_bytes
from tracker_adapters.values.metric_names import last_step

from stepscope.commands.common import one_line_errors, say_damage
from stepscope.commands.consoles import console
from stepscope.diagnosing.stored_reports import stored_reports, verdict_in
from stepscope.runs.byte_sizes import format_bytes
from stepscope.runs.folders import find_runs
from stepscope.runs.opening import read_run
from stepscope.runs.places import short_path
from stepscope.text_table import print_table

_COLUMNS = ("name", "kind", "count", "last step", "last value")


@click.command("ls", epilog="\b\nExamples:\n  stepscope ls runs\n  stepscope ls runs/exp1")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@one_line_errors
def command(runs: tuple[str, ...]) -> None:
    """List runs, or names, kinds, counts and last values in one run.

    RUN is a run's folder or URL, a folder that contains runs, or a pattern such as 'runs/*'; by default the working
    folder.
    """
    runs = runs or (".",)
    if len(runs) == 1 and (is_url(runs[0]) or (Path(runs[0]) / MANIFEST).is_file()):
        with read_run(runs[0]) as record:
            _show_names(record)
    else:
        _show_runs(find_runs(runs))


def _show_runs(folders: Sequence[Path]) -> None:
    table = Table(title="runs", title_justify="left")
    for column in ("run", "status", "last step", "verdict", "size"):
        is_number = column in ("last step", "size")
        table.add_column(column, overflow="fold", justify="right" if is_number else "left", no_wrap=is_number)
    for folder in folders:
        table.add_row(*map(escape, _row(folder)))
    console().print(table)


def _row(folder: Path) -> list[str]:
    shown = str(short_path(folder))
    try:
        with read_run(folder) as record:
            last = last_step((info.name, info.last_step) for info in record.names("all"))
            verdicts = {report.marked(verdict_in(report.text)) for report in stored_reports(record)} - {""}
            status, told = record.info.status, [*sorted(verdicts), *record.damage()]
        return [shown, status, "" if last is None else str(last), "; ".join(told), _size(folder)]
    except (StepscopeError, OSError, sqlite3.Error) as error:  # one that is damaged must not hide the others
        return [shown, "unreadable", "", " ".join(str(error).split()), _size(folder)]


def _size(folder: Path) -> str:
    try:
        return format_bytes(run_bytes(folder))
    except OSError:
        return ""


def _cells(info: NameInfo) -> list[str]:
    value = "" if info.last_value is None else f"{info.last_value:.6g}"
    return [repr(info.name)[1:-1], info.kind, str(info.count), str(info.last_step), value]


def _show_names(record: RunRecord) -> None:
    manifest, names = record.manifest, record.names("all")
    title = f"{manifest.info.name} ({manifest.info.status})"
    output = console()
    print_table(output, _COLUMNS, [_cells(info) for info in names], numbers=frozenset((2, 3, 4)), title=title)
    say_damage(record)
    if manifest.lost:
        output.print(f"lost before they were stored: {manifest.lost}")
