"""W&B's own client in a process of its own, to see what it does under a fault: ``python native_wandb.py FOLDER``.

It logs one number a call and says ``<n>`` after each; after PAUSE_AFTER calls it waits for a line on standard input.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import psutil

PAUSE_AFTER = 500
CALLS = 5000
_SILENCE_S = 3.0


def main() -> None:
    """Logs as the module says."""
    import wandb

    run = wandb.init(mode="offline", dir=sys.argv[1], settings=wandb.Settings(silent=True, console="off"))
    try:
        for number in range(CALLS):
            run.log({"loss": float(number)})
            print(number, flush=True)
            if number == PAUSE_AFTER:
                sys.stdin.readline()
        run.finish()
        print("finished", flush=True)
    except BaseException as error:
        print(f"raised {type(error).__name__}", flush=True)
        os._exit(1)


class NativeClient:
    """The client's process; a context manager that kills it and its service at the end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.said(until=str(PAUSE_AFTER), silence_s=60.0)
        (self.service,) = (
            child for child in psutil.Process(self.process.pid).children() if child.name().startswith("wandb-core")
        )

    def __enter__(self) -> NativeClient:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.service.is_running():
            self.service.kill()
        self.process.kill()
        self.process.wait(60)

    def go_on(self) -> None:
        """Lets the client log the rest."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self, *, until: str = "finished", silence_s: float = _SILENCE_S) -> list[str]:
        """Returns what it says until ``until``, its end, or until it is silent for ``silence_s`` seconds."""
        found: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=silence_s)
            except queue.Empty:
                return found
            if not line:
                return found
            found.append(line)
            if line == until:
                return found

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put("")


if __name__ == "__main__":
    main()
