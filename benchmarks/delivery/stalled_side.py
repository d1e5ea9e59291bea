"""A million scalars and two thousand images while every sink stands still: memory, time, and what is lost."""

import time
from pathlib import Path

import numpy as np
import psutil

from delivery.emit_side import stalled_run


def sides(folder: Path, *, scalars: int = 1_000_000, images: int = 2000) -> dict[str, float]:
    """Emits as fast as the loop goes.

    Args:
        folder: Where the run lies; empty.
        scalars: To emit.
        images: To emit among them, uint8 of 64 x 64 x 3.

    Returns:
        ``memory_mb``: what the process grew by at most. ``median_us`` and ``p99_us`` of one ``run.scalar``.
        ``emit_s`` for all. ``store_s``: until all of it was committed. ``lost``: artifacts. ``deliver_s``: from the
        moment when the sinks go on until each of them has everything.
    """
    picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    durations = np.zeros(scalars, np.int64)
    durations += 1  # touches its memory before it is measured
    memory = psutil.Process().memory_info
    with stalled_run(folder / "run") as run:
        run.image("picture", picture, layout="HWC", step=0)
        run.flush_store()
        before, peak, begun = memory().rss, 0, time.perf_counter()
        for step in range(scalars):
            start = time.perf_counter_ns()
            run.scalar("loss", float(step), step=step)
            durations[step] = time.perf_counter_ns() - start
            if step % max(1, scalars // images) == 0:
                run.image("picture", picture, layout="HWC", step=step)
                peak = max(peak, memory().rss)
        emitted = time.perf_counter()
        run.flush_store()
        stored = time.perf_counter()
        peak = max(peak, memory().rss)
    delivered = time.perf_counter() - stored
    pending = sum(sink.pending for sink in run.stats.sinks.values())
    if pending:
        raise RuntimeError(f"{pending} artifacts are still pending: {run.stats}")
    return {
        "memory_mb": (peak - before) / 1e6,
        "median_us": float(np.median(durations)) / 1e3,
        "p99_us": float(np.percentile(durations, 99)) / 1e3,
        "emit_s": emitted - begun,
        "store_s": stored - emitted,
        "deliver_s": delivered,
        "lost": float(sum(run.stats.lost.values())),
    }
