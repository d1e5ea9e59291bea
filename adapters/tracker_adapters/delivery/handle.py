"""The trainer's side of delivery: starts it, watches it, waits for it within a deadline."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import tracker_adapters
from tracker_adapters.config import SinkConfig
from tracker_adapters.delivery.lane import Lane
from tracker_adapters.delivery.ledger import Ledger, Position, position_key
from tracker_adapters.registry import load_sink
from tracker_adapters.sink import Sink
from tracker_adapters.store.layout import DELIVERY_LOG, rank_folder

logger = logging.getLogger(__name__)

DeliveryMode: TypeAlias = Literal["process", "thread"]
POLL_INTERVAL_S = 0.02
WATCH_INTERVAL_S = 1.0
MAX_RESTARTS = 5


class Delivery:
    """Delivers a run's store to its sinks: in a child process, and in threads for sinks that are objects."""

    def __init__(
        self, run_folder: Path, rank: int, sinks: Sequence[SinkConfig | Sink], mode: DeliveryMode = "process"
    ) -> None:
        """Starts delivering; the store's writer lock must be held already.

        Args:
            run_folder: The run.
            rank: Whose store to carry.
            sinks: Configurations, and sink objects, which are always served by threads.
            mode: ``thread`` serves configurations by threads too: for tests and in-memory sinks.
        """
        self._run_folder = run_folder
        self._folder = rank_folder(run_folder, rank)
        self._rank = rank
        in_process = [sink for sink in sinks if isinstance(sink, SinkConfig) and mode == "process"]
        in_threads = [sink for sink in sinks if sink not in in_process]
        self._ledger = Ledger(self._folder)
        # The watch runs in the store's thread, stats and flush in the caller's.
        self._lock = threading.Lock()
        self._lanes = [self._lane(sink, number) for number, sink in enumerate(in_threads)]
        self._keys = [lane.key for lane in self._lanes]
        for config in in_process:
            self._ledger.register(config.type, config.target)
            self._keys.append(position_key(config.type, config.target))
        self._threads = [
            threading.Thread(target=lane.run, name=f"stepscope-{lane.key}", daemon=True) for lane in self._lanes
        ]
        for thread in self._threads:
            thread.start()
        self._request = json.dumps(
            {
                "sinks": [{"type": config.type, "options": config.options} for config in in_process],
                "sys_path": [os.path.abspath(entry) for entry in sys.path],  # noqa: PTH100 - "" means here
            }
        )
        self._child: subprocess.Popen[bytes] | None = None
        self._restarts = 0
        self._warned: set[str] = set()
        self._watched_at = 0.0
        if in_process:
            self._child = self._spawn()

    def positions(self) -> dict[str, Position]:
        """Returns the position of each of this run's sinks; those of earlier openings are left out."""
        with self._lock:
            known = self._ledger.positions()
        return {key: known[key] for key in self._keys if key in known}

    def watch(self) -> None:
        """Restarts a delivery process that died, and warns once of each quarantined sink; cheap when nothing is due."""
        if time.monotonic() - self._watched_at < WATCH_INTERVAL_S:
            return
        self._watched_at = time.monotonic()
        self.warn_of_failures()
        if self._child is None or self._child.poll() is None or self._restarts >= MAX_RESTARTS:
            return
        self._restarts += 1
        logger.warning(
            "the delivery process ended with exit code %s; starting it again (%d of %d)",
            self._child.returncode,
            self._restarts,
            MAX_RESTARTS,
        )
        self._child = self._spawn()

    def warn_of_failures(self) -> None:
        """Logs each quarantined sink once."""
        for key, position in self.positions().items():
            if position.state == "quarantined" and key not in self._warned:
                self._warned.add(key)
                logger.warning(
                    "sink %s (%s) is quarantined: %s. Training goes on; its artifacts wait in the run store",
                    position.sink,
                    position.target,
                    position.error,
                )
            elif position.state != "quarantined":
                self._warned.discard(key)

    def wait_delivered(self, seq: int, deadline: float) -> bool:
        """Waits until every sink took the artifact ``seq``; False when ``time.monotonic()`` passed ``deadline``."""
        while True:
            positions = self.positions()
            if len(positions) == len(self._keys) and all(position.seq >= seq for position in positions.values()):
                return True
            if time.monotonic() >= deadline:
                return False
            self.watch()
            time.sleep(POLL_INTERVAL_S)

    def close(self, deadline: float) -> bool:
        """Waits for delivery to drain and leave, once the store is closed.

        Returns:
            Whether it ended in time. What is left then stays in the store; a delivery process that still works
            goes on by itself.
        """
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        ended = not any(thread.is_alive() for thread in self._threads)
        if self._child is not None:
            try:
                self._child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                ended = False
                # It outlives this object on purpose; without this, collecting it would warn of a leaked process.
                self._child.returncode = 0
        if not ended:
            for lane in self._lanes:
                lane.stopping.set()
        return ended

    def _lane(self, sink: SinkConfig | Sink, number: int) -> Lane:
        if isinstance(sink, SinkConfig):
            config = sink
            return Lane(
                self._run_folder,
                self._rank,
                config.type,
                config.target,
                lambda: load_sink(config.type)(**config.options),
            )
        name = type(sink).__name__
        lane = Lane(self._run_folder, self._rank, name, str(getattr(sink, "target", number)), lambda: sink)
        self._ledger.register(name, str(getattr(sink, "target", number)))
        return lane

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        root = str(Path(tracker_adapters.__file__).parent.parent)
        if root not in sysconfig.get_paths().values():  # an import from a checkout
            environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        with (self._folder / DELIVERY_LOG).open("ab") as log:
            child = subprocess.Popen(
                # -P: a file in the working directory must not stand for a package.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "tracker_adapters.deliver",
                    str(self._run_folder),
                    "--rank",
                    str(self._rank),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C in the trainer's terminal is not for the child
            )
        assert child.stdin is not None
        try:
            child.stdin.write(self._request.encode())
            child.stdin.close()
        except BrokenPipeError:
            logger.warning("the delivery process ended at its start; see %s", self._folder / DELIVERY_LOG)
        return child
