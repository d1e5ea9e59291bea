"""Runs in notebooks: a card without scripts, and the viewer's page in a frame, served by this process."""

import atexit
import threading
from html import escape
from pathlib import Path

from tracker_adapters.errors import StepscopeError
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.values.metric_names import metrics_first

from debuggers.pictures.html_page import framed, html_page, notebook_frame, safe
from debuggers.pictures.svg_lines import line_chart
from stepscope.diagnosing.stored_reports import stored_reports
from stepscope.report_pages.content import ReportContent
from stepscope.viewer.serving import ViewerServer
from stepscope.viewer.watched_runs import RunList

MOST_CHARTS = 4
MOST_VALUES = 50_000
PAGE_HEIGHT = 800


class EmbeddedPage:
    """The viewer's page in a notebook; as text its address."""

    def __init__(self, url: str, height: int) -> None:
        self.url = url
        self.height = height

    def _repr_html_(self) -> str:
        frame = notebook_frame(f'src="{escape(self.url)}" title="stepscope"', self.height)
        return f'{frame}<a href="{escape(self.url)}" target="_blank">in a tab of its own</a>'

    def __repr__(self) -> str:
        return f"stepscope's viewer: {self.url}"


def run_card(run_folder: Path) -> str:
    """Returns a run as HTML: verdict, status, the course of its losses and metrics, and what it has recorded.

    Raises:
        RunError: When the run cannot be read.
    """
    with RunRecord(run_folder) as record:
        info, names = record.info, record.names("all")
        scalars = {one.name: one for one in names if one.kind == "scalar"}
        chosen = [name for name in metrics_first(scalars, MOST_CHARTS) if scalars[name].count <= MOST_VALUES]
        series = record.many_scalars(chosen)
        charts = [
            line_chart(name, {name: (series[name].steps, series[name].values)}) for name in chosen if name in series
        ]
        verdicts = [(report, ReportContent(title="", text=report.text)) for report in stored_reports(record)]
    kinds = sorted({one.kind for one in names})
    counts = ", ".join(f"{sum(one.count for one in names if one.kind == kind):,} {kind}s" for kind in kinds)
    told = "".join(
        f'<div class="card verdict {one.state if report.is_last else ""}"><p><b>Verdict:</b> '
        f"{safe(report.marked(one.verdict))}</p></div>"
        for report, one in verdicts
    )
    body = (
        f'<h2>{safe(info.name)} <span class="soft">{info.status}</span></h2>{told}'
        f'<div class="pictures">{"".join(charts)}</div><p class="soft">{safe(counts) or "nothing recorded yet"}; '
        f"{safe(run_folder)}</p>"
    )
    return framed(html_page(info.name, body))


def embed(run_folder: Path, height: int = PAGE_HEIGHT) -> EmbeddedPage:
    """Returns the viewer's page for a run, to show in a notebook; ``height`` is in pixels.

    One server a process, at 127.0.0.1, serves all the runs that were asked for, until the process ends.

    Raises:
        MissingPackageError: Without starlette or uvicorn.
        RunError: When the run cannot be read.
    """
    return _page_server.page(run_folder, height)


class _PageServer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: RunList | None = None
        self._server: ViewerServer | None = None

    def page(self, run_folder: Path, height: int) -> EmbeddedPage:
        with self._lock:
            if self._runs is None or self._server is None:
                self._runs = RunList([run_folder])
                self._server = ViewerServer(self._runs, port=0)
                thread = threading.Thread(target=self._server.run, name="stepscope-viewer", daemon=True)
                thread.start()
                atexit.register(self.stop)
            key = self._runs.add(run_folder)
            return EmbeddedPage(f"{self._server.url}#/?runs={key}", height)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()


_page_server = _PageServer()


def quiet_card(run_folder: Path) -> str | None:
    """Returns ``run_card``, or None where the run cannot be read: a notebook then shows its text."""
    try:
        return run_card(run_folder)
    except (StepscopeError, OSError):
        return None
