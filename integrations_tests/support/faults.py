"""Does faults to training runs, and checks that every artifact is accounted for afterwards."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fault_training
import psutil
from delivery_processes import delivery_processes
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder
from tracker_adapters.store.ledger import Ledger
from waiting import until

import stepscope

TRAINING = Path(fault_training.__file__)


def first_on_path(*folders: Path) -> dict[str, str]:
    """Returns variables with which a program imports what lies in some folders rather than what is installed."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])}


SUPPORT = first_on_path(TRAINING.parent, *TRAINING.parent.iterdir())
"""Variables with which a program can import what tests share, such as ``fault_training``."""
WHOLE = os.environ.get("STEPSCOPE_WHOLE_FAULTS") == "1"
"""Whether the longest faults are done at their full size, which takes several minutes more."""


@dataclass
class Training:
    """A training that runs in another process; ``training`` starts one."""

    process: subprocess.Popen[str]
    folder: Path
    steps: int
    emitted_before: int = 0
    lines: queue.Queue[str] = field(default_factory=queue.Queue)

    def wait_for_step(self, step: int, timeout_s: float = 60.0) -> None:
        """Waits until the training has done a step."""
        self.wait_for_line(f"step {step}", timeout_s)

    def go_on(self) -> None:
        """Lets a training that pauses go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self, timeout_s: float = 120.0) -> dict[str, Any]:
        """Waits for the end; returns what the training printed.

        It asserts that no step was disturbed, and that the run has counted every artifact: emitted = stored + lost,
        and stored = delivered + pending + failed in each sink.
        """
        line = self.wait_for_line("{", timeout_s)
        code = self.process.wait(timeout_s)
        assert code == 0, f"the training ended with {code}: {self.errors()}"
        found: dict[str, Any] = json.loads(line)
        assert found["losses"] == fault_training.losses_without_us(self.steps)
        assert "Traceback" not in self.errors(), self.errors()
        emitted = self.emitted_before + fault_training.emitted_by(self.steps).total()
        assert found["emitted"] == emitted == found["stored"] + sum(found["lost"].values()), found
        for account in found["sinks"].values():
            counted = account["delivered"] + account["pending"] + sum(account["failed"].values())
            assert counted == found["stored"], found
        return found

    def errors(self) -> str:
        """What the training wrote to standard error so far."""
        return (self.folder.parent / f"{self.folder.name}.stderr").read_text()

    def delivery_processes(self) -> list[psutil.Process]:
        """The training's delivery processes that live."""
        return delivery_processes(self.process.pid)

    def suspend_deliveries(self, number: int) -> list[psutil.Process]:
        """Stops the delivery processes, of which there are so many; returns them."""
        children = self.delivery_processes()
        assert len(children) == number
        for child in children:
            child.suspend()
        return children

    def kill_deliveries(self) -> None:
        """Kills the delivery processes, of which there is one at least."""
        until(self.delivery_processes)
        for child in self.delivery_processes():
            child.kill()

    def end(self, timeout_s: float = 60.0) -> int:
        """Waits until the process has ended; returns its exit code, negative for a signal."""
        return self.process.wait(timeout_s)

    def wait_for_line(self, start: str, timeout_s: float = 60.0) -> str:
        """Waits for a line of standard output that begins with ``start``, and returns it."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {start!r} within {timeout_s} s: {self.errors()}") from None
            if line.startswith(start):
                return line
            assert line, f"the training ended before {start!r}: {self.errors()}"


@contextmanager
def training(
    folder: Path,
    sinks: Sequence[Any],
    *,
    steps: int = 200,
    pauses: Sequence[int] = (),
    at: str = "",
    close_timeout: float = 60.0,
    environment: dict[str, str] | None = None,
    emitted_before: int = 0,
    **open_run: Any,
) -> Iterator[Training]:
    """Starts a training whose run lies in ``folder``; kills what is left of it at the end of the block.

    Args:
        folder: The run's folder.
        sinks: For ``open_run``; must be JSON.
        steps: Training steps.
        at: A URL at which the run is opened instead.
        pauses: Steps after which it waits for ``Training.go_on``.
        close_timeout: What ``Run.close`` gets, in seconds.
        environment: More variables.
        emitted_before: What earlier openings of the run have emitted.
        open_run: More arguments of ``open_run``.
    """
    plan = {
        "folder": at or str(folder),
        "open_run": {"sinks": list(sinks), **open_run},
        "steps": steps,
        "pauses": list(pauses),
        "close_timeout": close_timeout,
    }
    with _started([str(TRAINING), json.dumps(plan)], folder, steps, environment) as found:
        found.emitted_before = emitted_before
        yield found


@contextmanager
def program(folder: Path, source: str, environment: dict[str, str] | None = None) -> Iterator[Training]:
    """Starts a Python program, with the run's folder as its argument; kills what is left of it at the end of the block.

    Args:
        folder: The run's folder, which ``sys.argv[1]`` names.
        source: The program.
        environment: More variables.
    """
    with _started(["-c", source, str(folder)], folder, 0, environment) as found:
        yield found


@contextmanager
def _started(
    arguments: Sequence[str], folder: Path, steps: int, environment: dict[str, str] | None
) -> Iterator[Training]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"} | (environment or {}),
            start_new_session=True,
        )
    found = Training(process, folder, steps)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.lines.put(line.rstrip("\n"))
        found.lines.put("")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield found
    finally:
        left = [process] if process.poll() is None else []
        for child in [*delivery_processes(process.pid), *(psutil.Process(one.pid) for one in left)]:
            child.kill()
        process.wait(60)
        reader.join(60)


def stored_counts(folder: Path) -> Counter[str]:
    """Returns how many artifacts of each kind the run store holds, by its own reader."""
    with stepscope.read_run(folder) as record:
        counts: Counter[str] = Counter()
        for info in record.names("all"):
            counts[info.kind] += info.count
        return counts


@dataclass(frozen=True)
class SinkAccount:
    """One sink's line in the ledger of a run that nobody delivers any more."""

    delivered: int
    pending: int
    failed: dict[str, int]
    state: str
    error: str


def accounts(folder: Path) -> dict[str, SinkAccount]:
    """Returns each sink's account; asserts that stored = delivered + pending + failed in each.

    Each sink must have one target: a run that was moved and delivered again has two.
    """
    stored = sum(stored_counts(folder).values())
    rank = rank_folder(folder, 0)
    if not (rank / DELIVERY_DATABASE).exists():
        return {}
    with Ledger(rank) as ledger:
        positions = ledger.positions()
    found: dict[str, SinkAccount] = {}
    for position in positions.values():
        assert position.sink not in found
        pending = stored - position.seq
        assert pending >= 0
        assert stored == position.delivered + pending + sum(position.failed.values())
        found[position.sink] = SinkAccount(position.delivered, pending, position.failed, position.state, position.error)
    return found


@dataclass(frozen=True)
class FaultResult:
    """A line of the fault matrix."""

    fault: str
    runs: int
    lost: int
    duplicated: int
    recovery_s: float | None
    native: str


class FaultReport:
    """Collects the lines of the fault matrix; they go to the file that STEPSCOPE_FAULT_REPORT names, if any."""

    @property
    def wanted(self) -> bool:
        """Whether there is such a file: without it, nobody asks what a tracker's own client does, which takes long."""
        return bool(os.environ.get("STEPSCOPE_FAULT_REPORT"))

    def add(
        self,
        fault: str,
        *,
        runs: int = 1,
        lost: int = 0,
        duplicated: int = 0,
        recovery_s: float | None = None,
        native: str = "",
    ) -> None:
        """Adds a line.

        Args:
            fault: What was done, as the table says it.
            runs: How often it was done.
            lost: Artifacts that a tracker will never show, or that were emitted 0.1 s before the fault and not stored.
            duplicated: Artifacts that a tracker shows twice.
            recovery_s: From the fault's end until everything was delivered; the longest of the runs.
            native: What the tracker's own client did under the same fault, as measured beside it.
        """
        target = os.environ.get("STEPSCOPE_FAULT_REPORT")
        if not target:
            return
        result = FaultResult(fault, runs, lost, duplicated, recovery_s, native)
        with Path(target).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(result.__dict__) + "\n")
