"""Runs ``stepscope view`` as a user does, and asks it as a page does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENDS_WITHIN_S = 60.0
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({missing!r})); from stepscope.cli import main; main()"


@dataclass(frozen=True)
class Viewer:
    """A viewer that runs; ``url`` is the one that it printed."""

    url: str
    process: subprocess.Popen[str]

    @property
    def root(self) -> str:
        """The URL without a token."""
        return self.url.partition("?")[0]

    def get(self, path: str, **headers: str) -> tuple[int, bytes, Mapping[str, str]]:
        """Returns the status, the body and the headers of an answer."""
        request = urllib.request.Request(
            self.root + path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read(), dict(error.headers)

    def json(self, address: str) -> Any:
        """Returns what an address answers."""
        status, body, _ = self.get(f"api/{address}")
        assert status == 200, body
        return json.loads(body)

    def peak_mb(self) -> float:
        """Returns the most memory that the server has had so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1000


def command(*arguments: str | os.PathLike[str], missing: Sequence[str] = ()) -> list[str]:
    """Returns the command with these arguments, in a Python where these packages are not installed."""
    start = ["-c", WITHOUT.format(missing=list(missing))] if missing else ["-m", "stepscope"]
    return [sys.executable, *start, "view", *map(os.fspath, arguments), "--no-browser"]


@contextmanager
def viewing(*arguments: str | os.PathLike[str], missing: Sequence[str] = ()) -> Iterator[Viewer]:
    """Runs a viewer until the block ends."""
    process = subprocess.Popen(command(*arguments, missing=missing), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield Viewer(found[0], process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=ENDS_WITHIN_S)
