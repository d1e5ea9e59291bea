"""``stepscope report``: what the sessions of a run found."""

from pathlib import Path

import click
from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import NotARunError

from stepscope.commands.common import echo, one_line_errors
from stepscope.runs.folders import find_runs
from stepscope.runs.places import short_path
from stepscope.sessions.stored_reports import stored_reports


@click.command(
    "report",
    epilog="\b\nExamples:\n  stepscope report runs/watched --html report.html\n  stepscope report runs/exp1 runs/exp2",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write one run's report there, as HTML.")
@one_line_errors
def command(runs: tuple[str, ...], *, html: Path | None) -> None:
    """Print the report of each RUN: findings, verdict and coverage.

    A report is stored when a watch or session ends. Of several ranks, the first is shown, and those with another
    verdict. Two runs are also compared: what differs, and since which step. RUN is a run's folder or URL, a folder that
    contains runs, or a pattern.
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
        for report in reports:
            title = f"{short_path(folder)}{f' ({report.title})' if report.title else ''}"
            echo(f"{title}\n{report.text}" if len(folders) > 1 or len(reports) > 1 or report.rank else report.text)
            shown += 1
    if len(folders) == 2:
        echo("\n".join(_compared(folders[0], folders[1])))
        return
    if not shown:
        raise NotARunError(
            f"no report is stored in {', '.join(map(str, map(short_path, folders)))}; a session stores one when it "
            "ends: stepscope.watch(model, optimizer, run=run)"
        )


def _write_page(folder: Path, target: Path) -> None:
    from debuggers.diagnosis.rules.diagnose import diagnose
    from stepscope.diagnosing.stored_evidence import scopes, stored_evidence
    from stepscope.report_pages.content import ReportContent
    from stepscope.report_pages.html import to_html
    from stepscope.runs.opening import read_run

    with read_run(folder) as record:
        scope = scopes(record)[0]
        evidence = stored_evidence(record, scope)
        texts = [report.text for report in stored_reports(record) if report.scope == scope]
    text = texts[0] if texts else ""
    page = to_html(ReportContent(title=folder.name, text=text, causes=diagnose(evidence), evidence=evidence))
    write_atomically(target.parent, target.name, page.encode(errors="backslashreplace"), sync="nothing")
    echo(f"wrote {target}")


def _compared(first: Path, second: Path) -> list[str]:
    from debuggers.diagnosis.comparison import compare
    from debuggers.diagnosis.rules.diagnose import diagnose
    from stepscope.diagnosing.comparison_lines import comparison_lines
    from stepscope.diagnosing.stored_evidence import scopes, stored_evidence
    from stepscope.runs.opening import read_run

    found = []
    for folder in (first, second):
        with read_run(folder) as record:
            found.append(stored_evidence(record, scopes(record)[0]))
    names = (str(short_path(first)), str(short_path(second)))
    return comparison_lines(compare(found[0], found[1]), names, (diagnose(found[0]), diagnose(found[1])))
