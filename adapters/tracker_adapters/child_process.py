"""How this package's modules run as processes of their own beside a training, and stay out of its way."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import IO

import tracker_adapters
from tracker_adapters.sink import SCRIPT_VARIABLE

NICENESS = 19
"""The lowest priority: a training that uses every core keeps them. Once it has ended, these have them to themselves."""


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
    module: str, arguments: list[str], output: IO[bytes], stdin: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a module in a session of its own, since Ctrl-C in the trainer's terminal is not for it.

    Args:
        module: The module.
        arguments: Its command line.
        output: An open file, such as a log, that takes what it prints.
        stdin: What it reads; nothing by default.

    Raises:
        OSError: When it cannot be started.
    """
    return subprocess.Popen(
        [*python_command(module), *arguments],
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=output,
        stderr=output,
        env=python_environment(),
        start_new_session=True,
    )


def leave_alone(child: subprocess.Popen[bytes] | None) -> None:
    """Lets a process outlive the object that stands for it, which would warn of that when it is collected."""
    if child is not None and child.poll() is None:
        child.returncode = 0


def step_back() -> None:
    """Leaves the processors to whoever else wants them; called by the process itself."""
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
    the processors evenly with the other sessions, unless a container's limits take their place.
    """
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
