"""Puts a session's report where its user finds it: files, the run, and one line on standard error."""

import os
from os import PathLike
from pathlib import Path

from tracker_adapters.emitter import Emitter
from tracker_adapters.reports import REPORT_NAME
from tracker_adapters.terminal_text import say
from tracker_adapters.wording import counted

from stepscope.errors import ConfigError
from stepscope.runs.live_run import run_of
from stepscope.runs.slow_folders import told_when_slow
from stepscope.sessions.report import DebugReport, overhead_line


def make_folder(output_dir: str | PathLike[str] | None) -> None:
    """Makes the folder of a session's files when it begins: that it cannot be written is known before the training.

    Raises:
        ConfigError: When it cannot.
    """
    if output_dir is None:
        return
    folder = Path(output_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else "permission denied"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise ConfigError(f"output_dir is {str(folder)!r}: {reason}; expected a folder that can be made and written")


def put_out(report: DebugReport, output_dir: str | PathLike[str] | None, emitter: Emitter | None, step: int) -> None:
    """Writes ``report.json``, ``report.txt`` and ``report.html``, emits ``stepscope/report``, prints a verdict.

    Args:
        report: The report.
        output_dir: The folder, made when it does not exist; of further ranks its subfolders ``rank_1`` and so on. None
            for no files.
        emitter: Where the text goes; None for nowhere.
        step: The session's last step.

    Raises:
        OSError: When the folder cannot be written.
    """
    # The first rank speaks for all: they share weights and gradients.
    rank = 0 if (run := run_of(emitter)) is None else run.rank
    if rank == 0:
        say(closing_line(report))
    if emitter is not None:
        # Two spaces break a line in Markdown.
        emitter.text(REPORT_NAME, report.summary().replace("\n", "  \n"), step=max(0, step))
    if output_dir is not None:
        folder = Path(output_dir, f"rank_{rank}") if rank else Path(output_dir)
        title = folder.name if run is None else f"{run.path.name}{f', rank {rank}' if rank else ''}"
        page = report.to_html(title)
        with told_when_slow("writing the report", folder, rank=rank):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "report.json").write_text(report.to_json() + "\n", encoding="utf-8")
            (folder / "report.txt").write_text(report.summary() + "\n", encoding="utf-8")
            (folder / "report.html").write_text(page, encoding="utf-8", errors="backslashreplace")


def closing_line(report: DebugReport) -> str:
    """Returns the verdict, what it rests on, and the cost, in one line."""
    coverage = report.coverage
    if report.disabled or not (coverage.steps or coverage.recorded_layers):
        if inspected := report.tensors["inspected"]:  # a loop that passes its tensors, and tells no step
            found = ", ".join(f"{kind} ({count})" for kind, count in report.verdict.found.items())
            were = f"{counted(inspected, 'tensors')} {'was' if inspected == 1 else 'were'} inspected."
            return were + (f" Found: {found}." if found else "")
        return report.summary() if report.disabled else str(report.verdict)
    line = f"{report.verdict} {coverage.summary()}"
    return f"{line} {overhead_line(report.overhead)}" if coverage.steps else line
