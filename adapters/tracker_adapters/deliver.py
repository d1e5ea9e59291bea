"""The delivery process: ``python -m tracker_adapters.deliver RUN``, with the sinks as JSON on standard input.

It carries the run's artifacts into its sinks while the run lives, drains when the run ends (also when the trainer
was killed), and leaves.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tracker_adapters.delivery.lane import Lane
from tracker_adapters.registry import load_sink
from tracker_adapters.sink import Sink

DRAIN_STALL_S = 120.0
"""Once the run has ended, a delivery that gets nowhere for this long gives up; the rest is for a later sync."""
NICENESS = 19
"""The lowest priority: a training that uses every core keeps them. Once it has ended, delivery has them to itself."""

logger = logging.getLogger(__name__)


def deliver(run_folder: Path, rank: int, sinks: list[dict[str, Any]]) -> None:
    """Runs one lane a sink until all are done.

    Args:
        run_folder: The run.
        rank: Whose store to carry.
        sinks: Each ``{"type": …, "options": {…}}`` with the options that the sink's ``resolve`` returned.
    """
    lanes = [_lane(run_folder, rank, sink["type"], sink["options"]) for sink in sinks]
    # Daemon threads: a sink that hangs in foreign code must not keep the process from leaving.
    threads = [threading.Thread(target=lane.run, name=lane.key, daemon=True) for lane in lanes]

    def stop(*_: object) -> None:
        for lane in lanes:
            lane.stopping.set()

    signal.signal(signal.SIGTERM, stop)
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.2)
        running = [lane for lane, thread in zip(lanes, threads, strict=True) if thread.is_alive()]
        if running and all(
            lane.run_has_ended() and time.monotonic() - lane.progress_at > DRAIN_STALL_S for lane in running
        ):
            logger.error("gave up on %s: no progress for %.0f s", [lane.key for lane in running], DRAIN_STALL_S)
            logging.shutdown()
            os._exit(1)


def _lane(run_folder: Path, rank: int, sink_type: str, options: dict[str, Any]) -> Lane:
    def make_sink() -> Sink:
        return load_sink(sink_type)(**options)

    return Lane(run_folder, rank, sink_type, str(options["target"]), make_sink)


def main() -> None:
    """Reads the command line and standard input, and delivers."""
    parser = argparse.ArgumentParser(prog="python -m tracker_adapters.deliver", description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--rank", type=int, default=0, help="whose store to carry")
    arguments = parser.parse_args()
    request = json.load(sys.stdin)
    # Appended, so that a file of the user's that is called like a package cannot stand before it.
    sys.path += [entry for entry in request.get("sys_path", []) if entry not in sys.path]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s", level=logging.INFO)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
        if hasattr(os, "SCHED_BATCH"):  # Linux: waking up takes the core from nobody
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # Ctrl-C is the trainer's; this process drains when the trainer has gone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    deliver(arguments.run, arguments.rank, request["sinks"])


if __name__ == "__main__":
    main()
