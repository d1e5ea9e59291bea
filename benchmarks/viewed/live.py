"""How long what a training records takes until the page that is open shows it."""

import statistics
import time
from typing import Any

import numpy as np

import stepscope

VALUES = 8
UNEVEN_S = 0.37
"""Between two steps, so that they come at all times between two looks of the page."""
SHOWN = {
    "charts": '.board .card[data-name="loss"] .legend b:text-is("{step}")',
    "histograms": '.histogram-card canvas[aria-label*="steps 0 to {step};"]',
    "layers": '[role=application][aria-label*="steps 0 to {step},"]',
}
"""By view, what is in the page once it shows a step."""


def live(page: Any, url: str, run: stepscope.Run) -> dict[str, float]:
    """Returns by view the seconds from recording a step until the page shows it: the median, and the longest.

    The run has two steps, and a server at the address shows it.
    """
    found, step = {}, 1
    for view, shown in SHOWN.items():
        page.goto(f"{url}/#/{view}")
        page.locator(shown.format(step=step)).first.wait_for()
        took = []
        for _ in range(VALUES):
            time.sleep(UNEVEN_S)
            step += 1
            start = time.perf_counter()
            record(run, step)
            page.locator(shown.format(step=step)).first.wait_for()
            took.append(time.perf_counter() - start)
        found |= {f"live_{view}_s": statistics.median(took), f"live_{view}_longest_s": max(took)}
    return found


def record(run: stepscope.Run, step: int) -> None:
    """Records what the three views show of a step."""
    run.scalar("loss", step, step=step)
    run.scalar("gradient_norm/fc.weight", 1.0, step=step)
    run.histogram("gradients/fc.weight", np.arange(9.0), step=step)
