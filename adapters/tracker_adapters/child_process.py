"""Runs this package's modules as child processes beside a training, which they must not slow down."""

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath
from tempfile import TemporaryFile
from typing import IO

import tracker_adapters
from tracker_adapters.config import PRIORITY_VARIABLE
from tracker_adapters.safe_files import open_file
from tracker_adapters.sink import SCRIPT_VARIABLE

NICENESS = 19
"""The lowest priority: a training that uses every core keeps them. Once it has ended, these have them to themselves."""
FIRST_RESTART_S, MAX_RESTART_PAUSE_S = 1.0, 60.0
HEALTHY_S = 300.0
"""A process that lived this long is started again at once when it dies."""

logger = logging.getLogger(__name__)


def python_command(module: str) -> list[str]:
    """Returns the command that runs a module; a file in the working directory cannot stand for a package."""
    return [sys.executable, "-P", "-m", module]


def import_path() -> list[str]:
    """Returns where this process imports from, absolute, as another process and a file of JSON can take it.

    Users put paths of other types there, which Python's own import passes over, too. "Here" is left out when the
    working folder was removed.
    """
    found = []
    for entry in sys.path:
        if isinstance(entry, str):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.path.abspath(entry))  # noqa: PTH100 - "" means here
    return found


def python_environment() -> dict[str, str]:
    """Returns the environment for it: no accelerator, one thread, and this package wherever it was imported from."""
    script = os.environ.get(SCRIPT_VARIABLE) or next(iter(sys.argv), "")  # without one where Python is embedded
    environment = os.environ | {
        SCRIPT_VARIABLE: script,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    root = str(Path(tracker_adapters.__file__).parent.parent)
    if root not in sysconfig.get_paths().values():  # an import from a checkout
        environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return environment


def start_module(
    module: str,
    arguments: list[str],
    output: IO[bytes],
    stdin: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a module in a session of its own, since Ctrl-C in the trainer's terminal is not for it.

    Args:
        module: The module.
        arguments: Its command line.
        output: An open file, such as a log, that takes what it prints.
        stdin: What it reads; nothing by default.
        environment: Variables beside those of ``python_environment``.

    Raises:
        OSError: When it cannot be started.
    """
    return subprocess.Popen(
        [*python_command(module), *arguments],
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=output,
        stderr=output,
        env=python_environment() | dict(environment or {}),
        start_new_session=True,
    )


def answer_of(module: str, *arguments: str, asked: str = "", timeout_s: float) -> str:
    """Returns what a module prints that gets a text on its standard input.

    Raises:
        OSError: When it cannot be started.
        subprocess.SubprocessError: When it fails, or takes too long: then it is killed, with all that it has started.
    """
    with subprocess.Popen(
        [*python_command(module), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=python_environment(),
        start_new_session=True,
        encoding="utf-8",
    ) as process:
        try:
            answer, _ = process.communicate(asked, timeout_s)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, module)
    return answer


class ChildProcess:
    """A module that runs as a process beside this one and outlives it; its failures are logged, and raise nothing.

    Attributes:
        max_pause_s: The longest pause between two restarts.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        *,
        log: tuple[Path, PurePath],
        request: bytes = b"",
        exit_codes: Collection[int] = (0,),
    ) -> None:
        """Starts nothing yet.

        Args:
            name: What messages call the process.
            module: The module.
            arguments: Its command line.
            log: The file that takes what it prints: a folder, and the path below it in which no link is followed.
            request: What it reads from standard input.
            exit_codes: Those of a process that did not crash.
        """
        self._name, self._log, self._exit_codes = name, log, frozenset(exit_codes)
        self._module, self._arguments, self._request = module, arguments, request
        self.max_pause_s = MAX_RESTART_PAUSE_S
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at, self._pause_s, self._restarts = 0.0, FIRST_RESTART_S, 0
        self._said: set[str] = set()

    @property
    def lives(self) -> bool:
        """Whether the process runs."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or when it could not be started."""
        return None if self._child is None else self._child.poll()

    @property
    def crashed(self) -> bool:
        """Whether it ended in another way than by itself, or was never started."""
        return not self.lives and self.exit_code not in self._exit_codes

    def start(self) -> None:
        """Starts the process; ``restart_if_dead`` tries again where that fails."""
        self._started_at = time.monotonic()
        folder, path = self._log
        try:
            # A file, not a pipe: the child has its request even when this process dies or it is slow to read.
            with TemporaryFile(dir=(folder / path).parent) as request, open_file(folder, path, "ab") as log:
                request.write(self._request)
                request.seek(0)
                self._child = start_module(self._module, self._arguments, log, request)
        except OSError as error:
            self._child = None
            self.warn_once(f"{self._name} cannot be started: {error}")

    def restart_if_dead(self) -> bool:
        """Starts the process again if it died, at once or after a pause that doubles from 1 s.

        Returns:
            Whether it was started, or should have been.
        """
        if self.lives:
            return False
        now = time.monotonic()
        if now - self._started_at > HEALTHY_S:
            self._pause_s = FIRST_RESTART_S
        if self._restarts and now - self._started_at < min(self._pause_s, self.max_pause_s):
            return False
        self.warn_of_exit()
        if self._restarts:
            self._pause_s = min(2 * self._pause_s, self.max_pause_s)
        self._restarts += 1
        self.start()
        return True

    def wait(self, seconds: float) -> None:
        """Waits some seconds, or until the process leaves."""
        if self._child is None or not self.lives:
            time.sleep(seconds)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)

    def terminate(self) -> None:
        """Asks the process to leave."""
        if self._child is not None and self.lives:
            self._child.terminate()

    def kill(self) -> None:
        """Kills the process and what it started, and waits for it."""
        if self._child is not None and self.lives:
            kill_children(self._child.pid)
            self._child.kill()
            self._child.wait()

    def set_niceness(self, niceness: int) -> None:
        """Sets the process's priority; see the function of this name."""
        if self._child is not None and self.lives:
            set_niceness(self._child.pid, niceness)

    def abandon(self) -> None:
        """Lets the process go on by itself, behind everybody else."""
        self.set_niceness(NICENESS)
        leave_alone(self._child)

    def warn_of_exit(self) -> None:
        """Warns of how it ended, once for each exit code."""
        if self.exit_code is not None:
            self.warn_once(f"{self._name} ended with exit code {self.exit_code}; see {Path(*self._log)}")

    def warn_once(self, message: str) -> None:
        """Logs a warning, each only once."""
        if message not in self._said:
            self._said.add(message)
            logger.warning("%s", message)


def kill_children(pid: int) -> None:
    """Kills all that a process has started, such as the service of an SDK, and what that has started."""
    import psutil  # a delivery process hardly ever needs it

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


def leave_alone(child: subprocess.Popen[bytes] | None) -> None:
    """Lets a process outlive the object that stands for it, which would warn of that when it is collected."""
    if child is not None and child.poll() is None:
        child.returncode = 0


def step_back() -> None:
    """Leaves the processors to whoever else wants them, except with STEPSCOPE_PRIORITY=same; called by the process."""
    if os.environ.get(PRIORITY_VARIABLE) == "same":
        return
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
        if hasattr(os, "SCHED_BATCH"):  # Linux: waking up takes the core from nobody
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            # A session has a scheduling group of its own, within which alone its processes' niceness counts (sched(7)).
            if os.getsid(0) == os.getpid():  # else it would be the terminal's, with all that runs there
                Path("/proc/self/autogroup").write_text(str(NICENESS), encoding="ascii")


def set_niceness(pid: int, niceness: int) -> None:
    """Sets the priority of a child that has stepped back, or will: up while its parent waits for it, and down again.

    Where only the system's administrator may raise it, a part of it works: a child in a session of its own then shares
    the processors evenly with the other sessions, unless a container's limits take their place. With
    STEPSCOPE_PRIORITY=same, the child has its parent's priority and keeps it.
    """
    if os.environ.get(PRIORITY_VARIABLE) == "same":
        return
    with contextlib.suppress(OSError, ValueError):
        if os.getsid(pid) == pid:
            Path(f"/proc/{pid}/autogroup").write_text(str(max(0, niceness)), encoding="ascii")
    threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").glob("*")] or [pid]
    for thread in threads:  # Linux keeps a priority for each
        with contextlib.suppress(OSError):
            if os.getpriority(os.PRIO_PROCESS, thread) != niceness:
                os.setpriority(os.PRIO_PROCESS, thread, niceness)


def collect_rarely() -> None:
    """Looks for garbage less often than usual.

    A batch makes tens of thousands of objects without cycles; looking through all of an SDK's for some can cost a third
    of the time.
    """
    gc.set_threshold(100_000, 50, 100)
