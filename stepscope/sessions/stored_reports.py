"""The reports that sessions have left in a run, read without torch."""

from contextlib import suppress

from tracker_adapters.errors import DamagedError
from tracker_adapters.store.reading.record import RunRecord

REPORT_NAME = "stepscope/report"
VERDICT = "Verdict: "
"""How the line of a report begins that says how the training is."""


def stored_reports(record: RunRecord) -> dict[str, str]:
    """Returns the last report of each session by its name, which ends in ``stepscope/report``."""
    names = [info.name for info in record.names() if info.kind == "text"]
    ours = [name for name in names if f"/{name}".endswith(f"/{REPORT_NAME}")]
    found = {}
    for name in ours:
        with suppress(DamagedError):  # the record counts it, and says so in the log
            # In the store two spaces break a line, as in Markdown.
            found[name] = record.texts(name)[-1].text.replace("  \n", "\n")
    return found


def verdict_in(report: str) -> str:
    """Returns the verdict that a report states, without its reasons; empty where there is none."""
    lines = [line.removeprefix(VERDICT) for line in report.splitlines() if line.startswith(VERDICT)]
    return lines[0].partition(": ")[0].removesuffix(".") if lines else ""
