"""What a person sees of the Gradio example: a training whose stability is drawn while it goes on."""

import re
import sys
from pathlib import Path

import pytest
from browser import browser_page, chromium, screenshot
from servers import free_port, serving

APP = Path(__file__).parent.parent / "examples" / "gradio_app.py"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium here: apt-get install chromium"),
]


def test_a_training_is_chosen_and_watched(tmp_path):
    pytest.importorskip("gradio")
    port = free_port()
    with (
        serving([sys.executable, str(APP), str(port)], port=port, log=tmp_path / "app.log") as url,
        browser_page() as page,
    ):
        page.goto(url)
        page.get_by_label("NaN handling").click()
        page.get_by_role("option", name="skip").click()
        page.get_by_role("button", name="Train").click()
        shown = page.get_by_text(re.compile(r"^step 199: loss 0\.\d+, .* \d+ anomalies$"))
        shown.wait_for(timeout=180_000)
        page.locator("img").nth(2).wait_for()
        page.get_by_text("the optimizer's step is skipped").locator("visible=true").first.wait_for()
        page.wait_for_load_state("networkidle")
        # What the page draws takes memory in the same process, which may be told as a leak beside four batches of NaN.
        leaks = page.get_by_text("memory_leak").count()
        assert shown.inner_text().endswith(f" {8 + bool(leaks)} anomalies")
        screenshot(page, "gradio_app", tmp_path)
