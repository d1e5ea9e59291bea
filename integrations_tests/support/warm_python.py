"""Runs programs in forks of a Python that has imported torch and scikit-learn: a fork spares them seconds of imports.

To a program it is a process of its own that begins at its first line and ends as any other; only those packages are
there already, with one thread.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class WarmPython:
    """The process that forks; a context manager that ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout_s: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program.

        Args:
            arguments: Its file, from ``folder``, and its arguments.
            folder: The working directory.
            environment: All its variables but those for the number of threads.
            timeout_s: After so long everything is killed, and later programs fail.

        Raises:
            subprocess.TimeoutExpired: It took longer.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with TemporaryDirectory() as said:
            task = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "said": said}
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], timeout_s)[0]:
                os.killpg(self._process.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout_s)
            code = int(self._process.stdout.readline())
            output, errors = ((Path(said) / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(list(arguments), code, output, errors)

    def run_ranks(self, arguments: Sequence[str], *, folder: Path, timeout_s: float = 200.0) -> None:
        """Runs a program as two ranks, by torchrun's launcher.

        Raises:
            AssertionError: A rank failed.
            subprocess.TimeoutExpired: They took longer.
        """
        launcher = str(Path(__file__).with_name("forked_ranks.py"))
        done = self.run([launcher, *arguments], folder=folder, environment=os.environ, timeout_s=timeout_s)
        assert done.returncode == 0, done.stderr[-3000:]


def serve() -> dict[str, Any]:
    """Forks for each line of standard input; returns the line's task in the fork, and never in the first process."""
    while line := sys.stdin.readline():
        task: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return task
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    os._exit(0)


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
    import sklearn.datasets  # noqa: F401
    import torch._dynamo  # which the first optimizer imports  # noqa: F401

    gc.collect()
    gc.freeze()  # else each fork copies all that is in memory when it ends: a second and a half of a processor
    become(serve())
