"""The reports that sessions have left in a run, read without torch."""

from contextlib import suppress
from dataclasses import dataclass

from tracker_adapters.errors import DamagedError
from tracker_adapters.reports import REPORT_NAME, is_report_name, verdict_line
from tracker_adapters.store.reading.record import RunRecord

from debuggers.diagnosis.facts import FACTS_NAME
from stepscope.diagnosing.stored_evidence import last_text, scoped, texts_of


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The last report of a session.

    Attributes:
        scope: That of the session, such as ``D`` after ``run.scoped("D")``; often empty.
        rank: Whose it is.
        text: Its lines.
        time_ns: When it was stored.
        step: The last one of its session.
        is_last: Whether it is that of the scope's last session, which has left none where it was killed or goes on.
    """

    scope: str
    rank: int
    text: str
    time_ns: int
    step: int
    is_last: bool

    @property
    def title(self) -> str:
        """What tells it from the run's other reports; empty for the first rank without a scope."""
        return ", ".join(part for part in (self.scope, f"rank {self.rank}" if self.rank else "") if part)

    def marked(self, verdict: str) -> str:
        """Returns a verdict of the report as one of the run, marked where a later session has not told its own."""
        return verdict if self.is_last or not verdict else f"earlier session: {verdict}"


def stored_reports(record: RunRecord) -> list[StoredReport]:
    """Returns the last report of each session: those of the first rank, and of others whose verdict is another one.

    Ranks share weights and gradients, and most of what is found, but not their batches, losses and layers' outputs.
    """
    found: dict[tuple[str, str], StoredReport] = {}
    for rank in record.ranks:
        for info in record.names(rank):
            if info.kind != "text" or not is_report_name(info.name):
                continue
            with suppress(DamagedError):  # the record counts it, and says so in the log
                # A resumed run may end at an earlier step than the attempt before, whose report is still there.
                last = max(record.texts(info.name, rank), key=lambda text: text.time_ns)
                text = last.text.replace("  \n", "\n")  # in the store two spaces break a line, as in Markdown
                scope = info.name.removesuffix(REPORT_NAME).rstrip("/")
                facts = last_text(record, scoped(FACTS_NAME, scope), rank)
                is_last = facts is None or last.time_ns >= facts.time_ns
                report = StoredReport(scope, rank, text, last.time_ns, last.step, is_last)
                found.setdefault((report.scope, verdict_line(text)), report)
    return sorted(found.values(), key=lambda report: (report.scope, report.rank))


def earlier_sessions(record: RunRecord, scope: str = "", rank: int | None = None) -> list[str]:
    """Returns a line for each session of a scope that came before the last one, as of attempts: how it ended.

    What is stored of the last one, its causes among it, says nothing of them.

    Args:
        record: The run.
        scope: The session's scope.
        rank: Whose; by default that of the first rank.
    """
    rank = record.lowest_rank if rank is None else rank
    reports = texts_of(record, scoped(REPORT_NAME, scope), rank)
    facts = texts_of(record, scoped(FACTS_NAME, scope), rank)
    last_ns = max((text.time_ns for text in facts or reports), default=0)
    return [
        f"An earlier session, until step {text.step:,}: {verdict_line(text.text)}"
        for text in sorted(reports, key=lambda text: text.time_ns)
        if text.time_ns < last_ns
    ]


def verdict_in(report: str) -> str:
    """Returns the verdict that a report states, without its reasons; empty where there is none."""
    return verdict_line(report).partition(": ")[0].removesuffix(".")
