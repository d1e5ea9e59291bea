"""``stepscope diagnose``: what is wrong with a run, since when, why, and what to try."""

import json
from typing import Any

import click
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.values.plain import json_values
from tracker_adapters.wording import counted

from debuggers.diagnosis.evidence import Evidence
from stepscope.commands.common import echo, echo_prose, one_line_errors, say_damage
from stepscope.runs.folders import find_runs
from stepscope.runs.places import short_path

_UNOBSERVED = "what a session sees, as none has observed this training"


@click.command("diagnose", epilog="\b\nExample:\n  stepscope diagnose runs/watched")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="Print the causes as JSON, one line for each session.")
@one_line_errors
def command(runs: tuple[str, ...], *, as_json: bool) -> None:
    """Name the causes of what is wrong with each RUN, most likely first.

    The causes are derived from the stored run, which may have ended, failed, been killed, or still be running. RUN is a
    run's folder or URL, a folder that contains runs, or a pattern.
    """
    from debuggers.diagnosis.progress import nothing_learnt
    from debuggers.diagnosis.rules.diagnose import diagnose
    from stepscope.diagnosing.stored_evidence import scopes, stored_evidence
    from stepscope.diagnosing.stored_reports import earlier_sessions
    from stepscope.diagnosing.wording import cause_lines
    from stepscope.runs.opening import read_run

    folders = find_runs(runs)
    for folder in folders:
        with read_run(folder) as record:
            found = {scope: stored_evidence(record, scope) for scope in scopes(record)}
            gaps = {scope: _gaps(record, scope, evidence) for scope, evidence in found.items()}
            earlier = {scope: earlier_sessions(record, scope) for scope in found}
            say_damage(record)
            status = record.info.status
        for scope, evidence in found.items():
            causes = diagnose(evidence)
            left_out = [*gaps[scope], *nothing_learnt(evidence, causes)]
            if as_json:
                line: dict[str, Any] = {
                    "run": str(folder),
                    "scope": scope,
                    "status": status,
                    "error": evidence.facts.error,
                    "causes": [one.to_dict() for one in causes],
                    "gaps": left_out,
                    "earlier_sessions": earlier[scope],
                }
                echo(json.dumps(json_values(line), allow_nan=False))
                continue
            if len(folders) > 1 or len(found) > 1:
                echo(f"{short_path(folder)}{f' ({scope})' if scope else ''}")
            if not (evidence.facts.steps or causes):
                echo("Nothing to diagnose: no step is stored.")
                continue
            echo_prose(
                "\n".join(cause_lines(causes) or [f"No cause found in {counted(evidence.facts.steps, 'steps')}."])
            )
            if end := _end(status, evidence.facts.error):
                echo_prose(end)
            for gap in left_out if evidence.facts.model else (_UNOBSERVED,):
                echo_prose(f"Not checked: {gap}")
            for session in earlier[scope]:
                echo_prose(session)


def _gaps(record: RunRecord, scope: str, evidence: Evidence) -> tuple[str, ...]:
    """What was not checked; a session without a report, as one that was killed, may not have stored it."""
    from stepscope.diagnosing.stored_evidence import measured_steps
    from stepscope.diagnosing.stored_reports import stored_reports
    from stepscope.report_pages.content import ReportContent

    reports = [report for report in stored_reports(record) if report.scope == scope]
    if any(report.is_last and report.rank == record.lowest_rank for report in reports):
        return evidence.unchecked
    content = ReportContent(title=scope, evidence=evidence, measured_steps=measured_steps(record, scope))
    if not content.gaps:
        return evidence.unchecked
    # What was stored of it is older than what the series show.
    return content.gaps, *(gap for gap in evidence.unchecked if "individual parameters were measured" not in gap)


def _end(status: str, error: str) -> str:
    """How a training has ended; "" where it is over as it should be, or where nobody knows."""
    if error:
        return f"The training ended with: {error}"
    if status == "failed":
        return (
            "The run was not closed as usual: its process was killed or interrupted, or failed outside of the training."
        )
    return "The run is still being written." if status == "running" else ""
