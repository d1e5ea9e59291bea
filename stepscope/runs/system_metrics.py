"""What the machine and this process use while a run is open: a sample every ten seconds, taken by a thread."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import psutil
from tracker_adapters.errors import RunError
from tracker_adapters.values.metric_names import SYSTEM

from stepscope.runs.nvidia_devices import nvidia_devices

if TYPE_CHECKING:
    from stepscope.runs.live_run import Run

EVERY_S = 10.0
VARIABLE = "STEPSCOPE_SYSTEM_METRICS"
_SAID = {"": False, "on": False, "1": False, "off": True, "0": True}
_log = logging.getLogger(__name__)


def switched_off() -> bool:
    """Whether the environment says so; raises RunError for a value that says neither."""
    said = os.environ.get(VARIABLE, "")
    if said.lower() not in _SAID:
        raise RunError(f"the environment variable {VARIABLE} is {said!r}; expected on or off")
    return _SAID[said.lower()]


class Source(Protocol):
    """Something that is sampled."""

    def sample(self, seconds: float) -> Iterator[tuple[str, float]]:
        """Yields names with values, ``seconds`` after the sample before."""
        ...


class SystemMetrics:
    """Samples until ``stop``, or until the run is gone, in a thread that never keeps the process alive."""

    def __init__(self, run: Run, every_s: float) -> None:
        """Starts sampling; the first sample comes after ``every_s``."""
        self._run = weakref.ref(run)
        self._began_ns = run.info.created_ns
        self._every_s = every_s
        self._ending = threading.Event()
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._sample_all, name="stepscope-system", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Takes no more samples; waits for one that is being taken, for a second at most."""
        self._ending.set()
        if os.getpid() == self._owner:  # a fork's child has no such thread
            self._thread.join(1.0)

    def _sample_all(self) -> None:
        sources = list(_sources())
        last_s = time.monotonic()
        while not self._ending.wait(self._every_s):
            now_s = time.monotonic()
            found = dict(_sampled(sources, now_s - last_s))
            last_s = now_s
            run = self._run()
            if run is None or self._ending.is_set():
                return
            step = max(0, (time.time_ns() - self._began_ns) // 10**9)
            run.scalars([SYSTEM + name for name in found], list(found.values()), step=step)
            del run


def _sources() -> Iterator[Source]:
    makers: list[Callable[[], Source | None]] = [Processes]
    if os.environ.get("LOCAL_RANK", "0") in ("", "0"):  # of the ranks of a machine one is enough
        makers += [Host, nvidia_devices]
    for make in makers:
        try:
            source = make()
            if source is not None:
                list(source.sample(1.0))  # rates count from here
                yield source
        except Exception as error:  # a container may hide what a machine has
            _log.debug("no system metrics of %s: %r", make.__name__, error)


def _sampled(sources: list[Source], seconds: float) -> Iterator[tuple[str, float]]:
    for source in list(sources):
        try:
            yield from source.sample(seconds)
        except Exception as error:
            _log.warning("system metrics of %s end: %r", type(source).__name__, error)
            sources.remove(source)


class Host:
    """The whole machine."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def sample(self, seconds: float) -> Iterator[tuple[str, float]]:
        """Yields the share of processors and memory, and bytes a second of disks and networks."""
        yield "cpu_percent", psutil.cpu_percent()
        yield "memory_percent", psutil.virtual_memory().percent
        now: dict[str, float] = {}
        disks, networks = psutil.disk_io_counters(), psutil.net_io_counters()
        if disks is not None:
            now |= {"disk_read_bytes_per_s": disks.read_bytes, "disk_write_bytes_per_s": disks.write_bytes}
        if networks is not None:
            now |= {
                "network_sent_bytes_per_s": networks.bytes_sent,
                "network_received_bytes_per_s": networks.bytes_recv,
            }
        for name, total in now.items():
            if name in self._last and total >= self._last[name] and seconds > 0:  # counters may start again
                yield name, (total - self._last[name]) / seconds
        self._last = now


class Processes:
    """This process and those that it has started, such as workers of a data loader."""

    def __init__(self) -> None:
        self._own = psutil.Process()
        self._known: dict[psutil.Process, float] = {}

    def sample(self, seconds: float) -> Iterator[tuple[str, float]]:
        """Yields their time on processors (100 is one), memory (what they share counts for each) and threads."""
        used = resident = threads = 0.0
        known: dict[psutil.Process, float] = {}
        for process in [self._own, *self._own.children(recursive=True)]:
            with suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                known[process] = times.user + times.system
                used += max(0.0, known[process] - self._known.get(process, 0.0))
                resident += process.memory_info().rss
                threads += process.num_threads()
        self._known = known
        if seconds > 0:
            yield "process/cpu_percent", 100 * used / seconds
        yield "process/memory_bytes", resident
        yield "process/threads", threads
