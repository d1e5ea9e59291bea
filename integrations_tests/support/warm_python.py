"""Runs programs in forks of a Python that has imported torch, scikit-learn and others: a fork spares them the imports.

To a program it is a process of its own that begins at its first line and ends as any other; only those packages are
there already, with one thread.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class WarmPython:
    """A connection to the process that forks; a context manager that closes it. The process ends after the last one.

    Args:
        folder: The tests that have a folder in common share one process, which the first of them starts.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / "warm_python.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._connection = _connected(str(folder / "warm")) or _started(str(folder / "warm"))
        self._replies = self._connection.makefile("r")

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(self, *exc: object) -> None:
        self._replies.close()
        self._connection.close()

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout_s: float = 600.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program.

        Args:
            arguments: Its file, from ``folder``, and its arguments.
            folder: The working directory.
            environment: All its variables but those for the number of threads.
            timeout_s: After so long it is killed, and later programs of this connection fail.

        Raises:
            subprocess.TimeoutExpired: It took longer.
        """
        with TemporaryDirectory() as said:
            task = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "said": said}
            self._connection.sendall(f"{json.dumps(task)}\n".encode())
            if not select.select([self._connection], [], [], timeout_s)[0]:
                self._connection.shutdown(socket.SHUT_RDWR)
                raise subprocess.TimeoutExpired(list(arguments), timeout_s)
            code = int(self._replies.readline())
            output, errors = ((Path(said) / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(list(arguments), code, output, errors)

    def run_stepscope(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str] = os.environ
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command ``stepscope`` with these arguments, as ``run`` does."""
        command = str(Path(__file__).with_name("stepscope_command.py"))
        return self.run([command, *arguments], folder=folder, environment=environment)

    def run_ranks(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        ranks: int = 2,
        environment: Mapping[str, str] = os.environ,
        succeeds: bool = True,
        timeout_s: float = 600.0,
    ) -> None:
        """Runs a program as several ranks, by torchrun's launcher.

        Raises:
            AssertionError: A rank failed, or with ``succeeds=False`` none did.
            subprocess.TimeoutExpired: They took longer.
        """
        launcher = str(Path(__file__).with_name("forked_ranks.py"))
        done = self.run([launcher, str(ranks), *arguments], folder=folder, environment=environment, timeout_s=timeout_s)
        assert (done.returncode == 0) == succeeds, done.stderr[-3000:]


def _connected(address: str) -> socket.socket | None:
    """Connects to the process if there is one; it greets, unless it is about to end."""
    connection = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        connection.connect(address)
        if connection.recv(1):
            return connection
    connection.close()
    return None


def _started(address: str) -> socket.socket:
    """Starts the process, with its first connection as standard input."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(
            [sys.executable, __file__, address], stdin=theirs, env=os.environ | ONE_THREAD, start_new_session=True
        )
    assert ours.recv(1), "the process that forks did not start"
    return ours


def serve(address: str) -> dict[str, Any]:
    """Forks for each line of a connection; returns the line's task in the fork, and never in the first process."""
    Path(address).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ)
    clients = {_greeted(socket.socket(fileno=os.dup(0)), events)}
    while clients:
        for key, _ in events.select():
            if key.fileobj is listener:
                clients.add(_greeted(listener.accept()[0], events))
            elif key.fileobj not in clients:  # a program that has ended
                events.unregister(key.fileobj)
                os.close(key.fd)
                pid, client = key.data
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(OSError):  # nobody waits any more
                    client.sendall(f"{code}\n".encode())
            elif line := key.data.readline():
                pid = os.fork()
                if pid == 0:
                    os.setsid()
                    events.close()
                    for connection in (listener, *clients):
                        connection.close()
                    return json.loads(line)
                events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, key.fileobj))
            else:
                events.unregister(key.fileobj)
                clients.remove(key.fileobj)
                _kill_programs(key.fileobj, events)
                key.fileobj.close()
    os._exit(0)


def _greeted(client: socket.socket, events: selectors.BaseSelector) -> socket.socket:
    client.sendall(b"\n")
    events.register(client, selectors.EVENT_READ, client.makefile("r"))
    return client


def _kill_programs(client: socket.socket, events: selectors.BaseSelector) -> None:
    for key in events.get_map().values():
        if isinstance(key.data, tuple) and key.data[1] is client:
            with suppress(ProcessLookupError):
                os.killpg(key.data[0], signal.SIGKILL)


def become(task: dict[str, Any]) -> None:
    """Makes this process look as if a task's program were started in it, and runs the program."""
    for descriptor, path in enumerate((os.devnull, f"{task['said']}/stdout", f"{task['said']}/stderr")):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(task["folder"])
    os.environ.clear()
    os.environ.update(task["environment"] | ONE_THREAD)
    program = Path(task["arguments"][0]).absolute()
    sys.argv = task["arguments"]
    sys.path[0] = str(program.parent)
    main = types.ModuleType("__main__")
    main.__file__ = str(program)
    sys.modules["__main__"] = main
    try:
        exec(compile(program.read_bytes(), program, "exec"), main.__dict__)
    except SystemExit as end:
        exit_code[0] = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    exit_code[0] = 0


def leave() -> None:
    """Ends this process without taking apart what its parent has imported, which would be copied for that."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code[0])


if __name__ == "__main__":
    exit_code = [1]
    atexit.register(leave)  # before all others, so that it is called after them
    import msgspec  # noqa: F401
    import psutil  # noqa: F401
    import rich.console
    import rich.progress
    import rich.table  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import torch._dynamo  # which the first optimizer imports  # noqa: F401

    gc.collect()
    gc.freeze()  # else each fork copies all that is in memory when it ends: a second and a half of a processor
    become(serve(sys.argv[1]))
