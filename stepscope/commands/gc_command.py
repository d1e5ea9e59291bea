"""``stepscope gc``: makes runs smaller."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import click
from tracker_adapters.errors import RunError
from tracker_adapters.remote.place import is_url
from tracker_adapters.store.upkeep.retention import retain, run_bytes
from tracker_adapters.store.upkeep.retention_plan import plan

from stepscope.commands.common import echo, one_line_errors
from stepscope.runs.byte_sizes import format_bytes, parse_bytes
from stepscope.runs.folders import find_runs
from stepscope.runs.places import short_path

EXAMPLES = """\b
Examples:
  stepscope gc runs/exp1 --max-bytes 10GB
  stepscope gc 'runs/*' --max-bytes 500MB --dry-run
"""


@click.command("gc", epilog=EXAMPLES)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--max-bytes", help="The size limit for each run, such as 10GB; by default, sizes are only shown.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@one_line_errors
def command(runs: tuple[str, ...], max_bytes: str | None, dry_run: bool) -> None:
    """Make each RUN smaller by compacting its oldest parts.

    RUN is a run's folder, a folder that contains runs, or a pattern such as 'runs/*'.

    Every name keeps its whole range of steps at a lower resolution: neighbouring histograms are merged; of scalars, the
    first, last, lowest and highest points of each interval are kept; of images, pages and files, every second one.
    Alerts and texts are kept as long as possible. Artifacts that a sink has not received yet are compacted last. A
    damaged segment is named and not changed.
    """
    limit = None if max_bytes is None else parse_bytes("--max-bytes", max_bytes)
    if url := next(filter(is_url, runs), None):
        raise RunError(f"{url} is a URL; expected a folder: a run can only be compacted where it was recorded")
    for run in find_runs(runs):
        echo(_report(run, limit, dry_run=dry_run))


def _report(run: Path, limit: int | None, *, dry_run: bool) -> str:
    taken = run_bytes(run)
    if limit is None or taken <= limit:
        return f"{short_path(run)}: {format_bytes(taken)}" + ("" if limit is None else "; nothing to do")
    try:
        if dry_run:
            return _planned(run, taken, limit)
        done = retain(run, limit)
    except RunError:
        raise
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"cannot compact {run}: {error}") from error
    line = f"{short_path(run)}: {format_bytes(done.bytes_before)} -> {format_bytes(done.bytes_after)}"
    if done.bytes_after > limit:
        line += "; it cannot be compacted further"
    return "\n".join([line, *_damaged(done.damaged)])


def _damaged(segments: Mapping[Path, str]) -> list[str]:
    return [f"  {short_path(path)} is damaged and was not changed: {fault}" for path, fault in segments.items()]


def _planned(run: Path, taken: int, limit: int) -> str:
    found = plan(run, limit)
    if not found.made:
        line = f"{short_path(run)}: {format_bytes(taken)}; it could not be compacted"
        return "\n".join([line, *_damaged(found.damaged)])
    lines = [f"{short_path(run)}: {format_bytes(taken)} would be compacted to about {format_bytes(found.bytes_after)}"]
    if found.bytes_after > limit:
        lines[0] += "; it could not be compacted further"
    for one in found.made:
        numbers = f"segment {one.first}" if one.first == one.last else f"segments {one.first} to {one.last}"
        line = f"  rank {one.rank}, {numbers}: {format_bytes(one.bytes_before)} -> {format_bytes(one.bytes_after)}"
        lines.append(
            f"{line}, thinned to 1/{2**one.level}" + ("" if one.is_taken else "; not delivered everywhere yet")
        )
    lines.append(f"  unchanged segments: {found.kept}")
    return "\n".join([*lines, *_damaged(found.damaged)])
