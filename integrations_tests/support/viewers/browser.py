"""A headless Chromium for tests that look at what a person would see.

It takes seconds of a processor to start, so that it stays until ``close_browser``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the engine without the browser's own windows, which takes two thirds of the processor time."""
# A machine without a network would otherwise see one refused connection after another.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

_running = ExitStack()


def chromium() -> str | None:
    """Returns the path of an installed Chromium."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def browser_page() -> Iterator[Page]:
    """Opens an empty page of 1600 x 1000 pixels, which shares nothing with the pages before it."""
    with _browser().new_context(viewport={"width": 1600, "height": 1000}) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page


def close_browser() -> None:
    """Ends the browser, if one was started; the next page starts another."""
    _running.close()
    _browser.cache_clear()


@cache
def _browser() -> Browser:
    from playwright.sync_api import sync_playwright

    playwright = _running.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=chromium(), headless=True, args=ARGUMENTS)
    return _running.enter_context(browser)


def screenshot(page: Page, name: str, folder: Path) -> Path:
    """Saves what the page shows into STEPSCOPE_SCREENSHOTS if that is set, else into ``folder``."""
    target = Path(os.environ.get("STEPSCOPE_SCREENSHOTS") or folder) / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=target)
    return target
