"""The reports that sessions have left in a run, read without torch."""

from contextlib import suppress
from dataclasses import dataclass

from tracker_adapters.errors import DamagedError
from tracker_adapters.reports import REPORT_NAME, is_report_name, verdict_line
from tracker_adapters.store.reading.record import RunRecord


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The last report of a session.

    Attributes:
        scope: That of the session, such as ``D`` after ``run.scoped("D")``; often empty.
        rank: Whose it is.
        text: Its lines.
        time_ns: When it was stored.
    """

    scope: str
    rank: int
    text: str
    time_ns: int

    @property
    def title(self) -> str:
        """What tells it from the run's other reports; empty for the first rank without a scope."""
        return ", ".join(part for part in (self.scope, f"rank {self.rank}" if self.rank else "") if part)


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
                report = StoredReport(info.name.removesuffix(REPORT_NAME).rstrip("/"), rank, text, last.time_ns)
                found.setdefault((report.scope, verdict_line(text)), report)
    return sorted(found.values(), key=lambda report: (report.scope, report.rank))


def verdict_in(report: str) -> str:
    """Returns the verdict that a report states, without its reasons; empty where there is none."""
    return verdict_line(report).partition(": ")[0].removesuffix(".")
