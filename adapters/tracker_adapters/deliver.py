"""The delivery process: ``python -m tracker_adapters.deliver RUN``, with the sink as JSON on standard input.

It carries the run's artifacts into one sink while the run lives, drains when the run ends (also when the trainer was
killed), and leaves. A sink that does not answer is given up: the process starts itself again, at the last token.
"""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tracker_adapters.child_process import collect_rarely, kill_children, step_back
from tracker_adapters.config import DEADLINE_S, HISTOGRAMS
from tracker_adapters.delivery.outcomes import EXIT_CODES, Outcome
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.redaction import redact_output, remember_secrets
from tracker_adapters.registry import load_sink
from tracker_adapters.sink import Sink

WATCH_INTERVAL_S = 0.5


def deliver(run_folder: Path, rank: int, request: dict[str, Any]) -> Outcome:
    """Carries a run into one sink until it is done; starts this process again when the sink does not answer.

    Args:
        run_folder: The run.
        rank: Whose store to carry.
        request: ``sink`` is ``{"type": …, "options": {…}}`` with the options that the sink's ``resolve`` returned,
            and perhaps ``histograms`` and ``deadline_s``. ``until``, ``wait_for_lease`` and ``folder_identity`` are
            those of ``DeliveryWorker``; ``background`` is false for a delivery that somebody waits for.
    """
    sink, identity = request["sink"], request.get("folder_identity")

    def make_sink() -> Sink:
        return load_sink(sink["type"])(**sink["options"])

    worker = DeliveryWorker(
        run_folder,
        rank,
        sink["type"],
        str(sink["options"]["target"]),
        make_sink,
        histograms=sink.get("histograms", HISTOGRAMS),
        until=request.get("until", "end"),
        wait_for_lease=request.get("wait_for_lease", True),
        folder_identity=None if identity is None else (identity[0], identity[1]),
    )
    outcome: list[Outcome] = []
    # A daemon: a sink that hangs in foreign code must not keep the process from leaving.
    thread = threading.Thread(target=lambda: outcome.append(worker.run()), name=worker.key, daemon=True)
    signal.signal(signal.SIGTERM, lambda *_: worker.stopping.set())
    thread.start()
    deadline_s = float(sink.get("deadline_s", DEADLINE_S))
    while thread.is_alive():
        thread.join(min(WATCH_INTERVAL_S, deadline_s / 4))
        if worker.calling.seconds() > deadline_s:
            if (final := worker.give_up_call()) is not None:
                leave(final)
            _start_again()
    return outcome[0] if outcome else "gave_up"


def leave(outcome: Outcome) -> None:
    """Ends this process at once, whatever threads of foreign code still run."""
    logging.shutdown()
    os._exit(EXIT_CODES[outcome])


def _start_again() -> None:
    """Replaces this process by a new one, under the same number: whoever waits for it need not know."""
    kill_children(os.getpid())
    logging.shutdown()
    os.lseek(0, 0, os.SEEK_SET)  # the request is read again
    os.execv(sys.executable, sys.orig_argv)


def main() -> None:
    """Reads the command line and standard input, and delivers."""
    parser = argparse.ArgumentParser(prog="python -m tracker_adapters.deliver", description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--rank", type=int, default=0, help="the rank whose store is delivered")
    parser.add_argument("--sink", default="", help="the sink's name, for whoever lists processes")
    arguments = parser.parse_args()
    request = json.load(sys.stdin)
    # Appended, so that a file of the user's that is called like a package cannot stand before it.
    sys.path += [entry for entry in request.get("sys_path", []) if entry not in sys.path]
    remember_secrets(request["sink"]["options"])
    redact_output()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s", level=logging.INFO)
    if request.get("background", True):
        step_back()
    collect_rarely()
    # Ctrl-C is the trainer's; this process drains when the trainer has gone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leave(deliver(arguments.run, arguments.rank, request))


if __name__ == "__main__":
    main()
