"""A headless Chromium for tests that look at what a person would see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
# A machine without a network would otherwise see one refused connection after another.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium() -> str | None:
    """Returns the path of an installed Chromium."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def browser_page(folder: Path) -> Iterator[Page]:
    """Opens an empty page of 1600 x 1000 pixels."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            folder / "profile",
            executable_path=chromium(),
            headless=True,
            args=ARGUMENTS,
            viewport={"width": 1600, "height": 1000},
        )
        try:
            page = browser.pages[0] if browser.pages else browser.new_page()
            page.set_default_timeout(60_000)
            yield page
        finally:
            browser.close()


def screenshot(page: Page, name: str, folder: Path) -> Path:
    """Saves what the page shows into STEPSCOPE_SCREENSHOTS if that is set, else into ``folder``."""
    target = Path(os.environ.get("STEPSCOPE_SCREENSHOTS") or folder) / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=target)
    return target
