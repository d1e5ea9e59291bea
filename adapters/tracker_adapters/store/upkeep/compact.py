"""Compacts a live run: started when a segment is sealed.

``python -m tracker_adapters.store.upkeep.compact RUN --max-bytes N``
"""

import argparse
import contextlib
import logging
import signal
from pathlib import Path

from tracker_adapters.child_process import step_back
from tracker_adapters.errors import RunBusyError
from tracker_adapters.store.upkeep.retention import retain

logger = logging.getLogger(__name__)


def main() -> None:
    """Reads the command line and compacts at the lowest priority."""
    parser = argparse.ArgumentParser(prog="python -m tracker_adapters.store.upkeep.compact", description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--max-bytes", type=int, required=True, help="what its store and files may take")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    step_back()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(RunBusyError):
        done = retain(arguments.run, arguments.max_bytes, whole=False)
        if done.made:
            logger.info(
                "%d segments became %d: %d -> %d bytes", done.replaced, done.made, done.bytes_before, done.bytes_after
            )
        for path, fault in done.damaged.items():
            logger.warning("%s is damaged and was not changed: %s", path, fault)


if __name__ == "__main__":
    main()
