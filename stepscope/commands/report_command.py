"""``stepscope report``: what the sessions of a run found."""

import click
from tracker_adapters.errors import NotARunError

from stepscope.commands.common import echo, one_line_errors
from stepscope.runs.folders import find_runs
from stepscope.runs.places import short_path
from stepscope.sessions.stored_reports import stored_reports


@click.command("report", epilog="\b\nExample:\n  stepscope report runs/watched")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@one_line_errors
def command(runs: tuple[str, ...]) -> None:
    """Print the report of each RUN: findings, verdict and coverage.

    A report is stored when a watch or session ends. Of several ranks, the first is shown, and those with another
    verdict. RUN is a run's folder or URL, a folder that contains runs, or a pattern.
    """
    from stepscope.runs.opening import read_run

    folders = find_runs(runs)
    shown = 0
    for folder in folders:
        with read_run(folder) as record:
            reports = stored_reports(record)
        for report in reports:
            title = f"{short_path(folder)}{f' ({report.title})' if report.title else ''}"
            echo(f"{title}\n{report.text}" if len(folders) > 1 or len(reports) > 1 or report.rank else report.text)
            shown += 1
    if not shown:
        raise NotARunError(
            f"no report is stored in {', '.join(map(str, map(short_path, folders)))}; a session stores one when it "
            "ends: stepscope.watch(model, optimizer, run=run)"
        )
