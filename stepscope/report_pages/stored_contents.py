"""The contents of a stored run's page: one for each session that it has, also of a training that was killed."""

from tracker_adapters.store.reading.record import RunRecord

from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.diagnosing.stored_evidence import measured_steps, scopes, stored_evidence
from stepscope.diagnosing.stored_reports import StoredReport, earlier_sessions, stored_reports
from stepscope.report_pages.content import ReportContent

_MOST_RANKS = 8
"""Further ranks that are looked at where the first has left no report to compare theirs with."""


def stored_contents(record: RunRecord) -> list[ReportContent]:
    """Returns what a page shows of a run: at least one content.

    Of each scope the first rank, then those whose report has another verdict. Where no report was stored, as of a
    training that was killed, those of the next eight ranks whose causes or whose state are others.
    """
    reports = {(report.scope, report.rank): report for report in stored_reports(record)}
    known = scopes(record)
    lowest = record.lowest_rank
    if known == [""] and reports and ("", lowest) not in reports:
        known = []  # sessions without a diagnosis have left reports alone
    found = []
    for scope in sorted({*known, *(scope for scope, _ in reports)}):
        told = [rank for of, rank in reports if of == scope]
        first = _content(record, reports.get((scope, lowest)), scope, lowest)
        found.append(first)
        for rank in told or [rank for rank in record.ranks if rank != lowest][:_MOST_RANKS]:
            if rank == lowest:
                continue
            content = _content(record, reports.get((scope, rank)), scope, rank)
            differs = {one.code for one in content.causes} != {one.code for one in first.causes}
            if told or differs or content.state not in ("", first.state):
                found.append(content)
    return found


def _content(record: RunRecord, report: StoredReport | None, scope: str, rank: int) -> ReportContent:
    evidence = stored_evidence(record, scope, rank)
    info = record.info
    parts = ", ".join(part for part in (scope, f"rank {rank}" if rank else "") if part)
    ended = {
        "running": "The training is running still.",
        "failed": "The run ended without success: it failed, or was killed.",
    }
    return ReportContent(
        title=f"{record.path.name}{f' ({parts})' if parts else ''}",
        text=report.text if report is not None and report.is_last else "",
        causes=diagnose(evidence),
        evidence=evidence,
        notes=tuple(filter(None, [ended.get(info.status)])),
        earlier=tuple(earlier_sessions(record, scope, rank)),
        scope=scope,
        rank=rank,
        running=info.status == "running",
        measured_steps=measured_steps(record, scope, rank),
    )
