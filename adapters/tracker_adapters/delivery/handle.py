"""The training's handle on its deliveries: starts and watches them, and waits for them up to a deadline."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tracker_adapters.config import SinkConfig, sink_identity
from tracker_adapters.delivery.process import DeliveryProcess
from tracker_adapters.registry import load_sink
from tracker_adapters.sink import Sink
from tracker_adapters.store.held_folder import HeldFolder
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.ledger import Ledger, Position, position_key
from tracker_adapters.terminal_text import printable_line

if TYPE_CHECKING:
    from tracker_adapters.delivery.worker import DeliveryWorker

logger = logging.getLogger(__name__)

DeliveryMode: TypeAlias = Literal["process", "thread"]
POLL_INTERVAL_S = 0.02
READ_TIMEOUT_S = 0.1
WATCH_INTERVAL_S = 1.0


class Delivery:
    """Delivers a run's store to its sinks: in a child process each, and in threads for sinks that are objects."""

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
        self._place = HeldFolder(self._folder)
        self._rank = rank
        self._positions: dict[str, Position] = {}
        in_process = [sink for sink in sinks if isinstance(sink, SinkConfig) and mode == "process"]
        in_threads = [sink for sink in sinks if sink not in in_process]
        self._workers = [self._worker(sink, number) for number, sink in enumerate(in_threads)]
        targets = [(worker.sink_type, worker.target) for worker in self._workers]
        targets += [(config.type, config.target) for config in in_process]
        with Ledger(self._folder) as ledger:
            self._positions = {position_key(*target): ledger.register(*target) for target in targets}
        self._threads = [
            threading.Thread(target=worker.run, name=f"stepscope-{worker.key}", daemon=True) for worker in self._workers
        ]
        self._processes = [
            DeliveryProcess(run_folder, rank, config, folder_identity=self._place.identity) for config in in_process
        ]
        self._closing = False
        self._warned: set[str] = set()
        # The watch runs in the store's thread, and in a caller's that waits.
        self._watching = threading.Lock()
        self._watched_at = 0.0
        for thread in self._threads:
            thread.start()
        for process in self._processes:
            process.start()

    def positions(self) -> dict[str, Position]:
        """Returns the position of each of this run's sinks; what cannot be read now is as it was last seen.

        Positions of earlier openings are omitted. Once everything is delivered, they are final.
        """
        if not self._place.is_in_place:  # the store says so; another run's ledger is left alone
            return self._positions
        try:
            # Opened for each look: forked children would inherit a connection that stays.
            with Ledger(self._folder, timeout_s=READ_TIMEOUT_S) as ledger:
                known = ledger.positions()
        except (sqlite3.Error, OSError) as error:
            if self._place.is_in_place:
                self._warn_once("ledger", "cannot read the positions of the sinks of %s: %s", self._run_folder, error)
            known = {}
        self._positions = {key: known.get(key, position) for key, position in self._positions.items()}
        return self._positions

    def watch(self) -> None:
        """Restarts a delivery process that died, and warns once of each quarantined sink; cheap when nothing is due."""
        if time.monotonic() - self._watched_at < WATCH_INTERVAL_S or not self._watching.acquire(blocking=False):
            return
        try:
            self._watched_at = time.monotonic()
            self.warn_of_failures()
            if not self._closing and self._place.is_in_place:
                for process in self._processes:
                    process.restart_if_dead()
        finally:
            self._watching.release()

    def warn_of_failures(self) -> None:
        """Logs each quarantined sink once."""
        for key, position in self.positions().items():
            if position.state == "quarantined":
                self._warn_once(
                    key,
                    "sink %s (%s) is quarantined: %s. Training continues; its artifacts wait in the run store",
                    position.sink,
                    printable_line(position.target),
                    printable_line(position.error),
                )
            else:
                self._warned.discard(key)

    def wait_delivered(self, seq: int, deadline: float) -> bool:
        """Waits until every sink took the artifact ``seq``; False when ``time.monotonic()`` passed ``deadline``.

        Delivery processes have the priority of this one meanwhile.
        """
        forward: set[DeliveryProcess] = set()
        try:
            while not all(position.seq >= seq for position in self.positions().values()):
                if time.monotonic() >= deadline:
                    return False
                self.watch()
                forward.update(self._processes)
                for process in forward:
                    process.come_forward()
                time.sleep(POLL_INTERVAL_S)
            return True
        finally:
            for process in forward:
                process.step_back()

    def close(self, deadline: float) -> bool:
        """Waits for delivery to drain and leave, once the store is closed.

        Returns:
            Whether it ended in time. What is left then stays in the store; a delivery process that still works
            continues by itself.
        """
        self._closing = True
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        ended = not any(thread.is_alive() for thread in self._threads)
        for process in self._processes:
            if not process.wait_until(deadline):
                ended = False
                process.abandon()
        if not ended:
            for worker in self._workers:
                worker.stopping.set()
        elif all(position.state == "done" for position in self.positions().values()):
            self._place.close()  # a closed run may live on in a notebook, and holds no file
        return ended

    def _warn_once(self, cause: str, message: str, *values: object) -> None:
        if cause not in self._warned:
            self._warned.add(cause)
            logger.warning(message, *values)

    def _worker(self, sink: SinkConfig | Sink, number: int) -> DeliveryWorker:
        # Most deliver in processes of their own, and need nothing of a worker here.
        from tracker_adapters.delivery.worker import DeliveryWorker

        def make_sink() -> Sink:
            return load_sink(sink.type)(**sink.options) if isinstance(sink, SinkConfig) else sink

        target = sink_identity(sink, number)
        return DeliveryWorker(self._run_folder, self._rank, *target, make_sink, folder_identity=self._place.identity)
