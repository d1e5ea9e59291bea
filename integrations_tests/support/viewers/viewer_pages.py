"""The viewer's server in this process, and a browser that looks at its page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import browser_page, chromium

import stepscope

if TYPE_CHECKING:
    from playwright.sync_api import Page

BUILT = Path(stepscope.__file__).parent / "viewer" / "built" / "page.js"
NEEDS_THE_PAGE = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no chromium here: apt-get install chromium"),
    pytest.mark.skipif(not BUILT.is_file(), reason="the viewer's page is not built: make page"),
]


@contextmanager
def viewer(*runs: object, port: int = 0) -> Iterator[str]:
    """Serves runs or folders of runs, and gives the page's address, which ends with a slash."""
    from stepscope.viewer.serving import ViewerServer
    from stepscope.viewer.watched_runs import RunList

    server = ViewerServer(RunList([str(run) for run in runs]), port=port)
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(60)
        yield server.url
    finally:
        server.stop()
        thread.join(60)


@contextmanager
def viewer_page() -> Iterator[tuple[Page, list[str]]]:
    """Opens an empty page as wide as a laptop's, and collects what it complains of: a test wants it empty."""
    from playwright.sync_api import expect

    complaints: list[str] = []
    expect.set_options(timeout=60_000)
    with browser_page() as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.set_default_timeout(60_000)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page, complaints


def serious_findings(page: Page) -> list[str]:
    """What axe finds serious or critical in the page; needs the page's packages, which its build brings."""
    axe = BUILT.parent.parent / "page" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("axe-core is not here: make page brings it")
    page.evaluate(axe.read_text(encoding="utf-8"))  # the page's security policy forbids foreign scripts
    found = page.evaluate("axe.run().then((results) => results.violations)")
    return [
        f"{one['id']}: {one['help']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"][:3]
    ]
