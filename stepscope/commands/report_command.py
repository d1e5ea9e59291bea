"""``stepscope report``: what the sessions of a run found."""

from collections.abc import Iterator
from pathlib import Path

import click
from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import NotARunError

from stepscope.commands.common import echo, echo_prose, one_line_errors, say_damage
from stepscope.diagnosing.environment_lines import environment_differences, environment_line
from stepscope.diagnosing.stored_reports import earlier_sessions, stored_reports
from stepscope.runs.folders import find_runs
from stepscope.runs.places import short_path

_EARLIER = (
    "The last session has stored no report: it was killed, or is not over, and stepscope diagnose names its causes. "
    "This is the report of an earlier session, until step {step:,}:"
)


@click.command(
    "report",
    epilog="\b\nExamples:\n  stepscope report runs/watched --html report.html\n  stepscope report runs/exp1 runs/exp2",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report of one run to FILE, as HTML."
)
@one_line_errors
def command(runs: tuple[str, ...], *, html: Path | None) -> None:
    """Print the report of each RUN: findings, verdict and coverage.

    A report is stored when a session ends. With several ranks, the report of the first one is shown, and those with a
    different verdict. If the last session of a run has stored none, that of an earlier one is shown, which is said.
    Two runs are also compared, scope by scope: what differs, and from which step on. RUN is a run's
    folder or URL, a folder that contains runs, or a pattern.
    """
    from stepscope.runs.opening import read_run

    folders = find_runs(runs)
    if html is not None:
        if len(folders) != 1:
            raise click.UsageError(f"--html takes one run, got {len(folders)}")
        _write_page(folders[0], html)
        return
    shown = 0
    for folder in folders:
        with read_run(folder) as record:
            reports = stored_reports(record)
            earlier = [earlier_sessions(record, report.scope, report.rank) for report in reports]
            where = environment_line(record.info.environment)
            say_damage(record)
        for report, sessions in zip(reports, earlier, strict=True):
            title = f"{short_path(folder)}{f' ({report.title})' if report.title else ''}"
            text = report.text
            if not report.is_last:
                text, sessions = f"{_EARLIER.format(step=report.step)}\n{text}", sessions[:-1]
            is_one = len(folders) == len(reports) == 1 and not report.rank
            echo_prose("\n".join([text if is_one else f"{title}\n{text}", *sessions]))
            shown += 1
        if reports and where:
            echo_prose(where)
    if len(folders) == 2:
        for line in _compared(folders[0], folders[1]):
            echo_prose(line)
        return
    if not shown:
        raise NotARunError(
            f"no report is stored in {', '.join(map(str, map(short_path, folders)))}; a session stores one when it "
            "ends: stepscope.watch(model, optimizer, run=run). Of a run that was killed, or is not over, stepscope "
            "diagnose names the causes, and --html FILE writes the page"
        )


def _write_page(folder: Path, target: Path) -> None:
    from stepscope.report_pages.html import sessions_page
    from stepscope.report_pages.stored_contents import stored_contents
    from stepscope.runs.opening import read_run

    with read_run(folder) as record:
        page = sessions_page(folder.name, stored_contents(record))
    write_atomically(target.parent, target.name, page.encode(errors="backslashreplace"), sync="nothing")
    echo(f"wrote {target}")


def _compared(first: Path, second: Path) -> Iterator[str]:
    from debuggers.diagnosis.comparison import compare
    from debuggers.diagnosis.rules.diagnose import diagnose
    from stepscope.diagnosing.comparison_lines import comparison_lines, paired
    from stepscope.diagnosing.stored_evidence import scopes, stored_evidence
    from stepscope.runs.opening import read_run

    names = (str(short_path(first)), str(short_path(second)))
    with read_run(first) as ours, read_run(second) as theirs:
        pairs, alone = paired(scopes(ours), scopes(theirs))
        for pair in pairs:
            titles = [f"{name} ({scope})" if scope else name for name, scope in zip(names, pair, strict=True)]
            found = stored_evidence(ours, pair[0]), stored_evidence(theirs, pair[1])
            causes = diagnose(found[0]), diagnose(found[1])
            yield from comparison_lines(compare(*found), (titles[0], titles[1]), causes)
        environments = ours.info.environment, theirs.info.environment
    yield from environment_differences(*environments)
    for name, scopes_alone in zip(names, alone, strict=True):
        if scopes_alone:
            yield f"Only in {name}: {', '.join(scope or 'a session without a scope' for scope in scopes_alone)}."
