"""Asks a process with limits about pages, and outlives whatever a page does to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from tracker_adapters.child_process import import_path, python_command, python_environment

from debuggers.errors import PageError

_MODULE = "stepscope.viewer.outputs.page_child"
MEMORY_BYTES = 1 << 30
TIMEOUT_S = 60.0
_HEADER = struct.Struct(">IB")
_PIECE = 1 << 16


class PageProcess:
    """The process that opens pages, started with the first request and reused; threads take turns.

    A request that takes longer than ``timeout_s`` or more than ``memory_bytes`` ends the process and raises PageError;
    the next request starts another one.
    """

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES, timeout_s: float = TIMEOUT_S) -> None:
        """Starts nothing yet."""
        self._memory_bytes = memory_bytes
        self._timeout_s = timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts the process, so that the first request need not wait for its imports."""
        if self._lock.acquire(blocking=False):
            with contextlib.suppress(OSError):
                self._running()
            self._lock.release()

    def ask(self, request: Mapping[str, Any]) -> bytes:
        """Returns the answer to a request; see ``page_requests``.

        Raises:
            PageError: When a page is refused, or has ended the process.
        """
        with self._lock:
            try:
                status, content = self._exchange(json.dumps(request).encode() + b"\n")
            except (OSError, EOFError) as error:
                raise PageError(self._reason(request, error)) from error
        if status:
            raise PageError(content.decode(errors="replace"))
        return content

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._end()

    def _exchange(self, line: bytes) -> tuple[int, bytes]:
        child = self._running()
        deadline = time.monotonic() + self._timeout_s
        assert child.stdin is not None
        child.stdin.write(line)
        child.stdin.flush()
        length, status = _HEADER.unpack(self._read(child, _HEADER.size, deadline))
        return status, self._read(child, length, deadline)

    def _read(self, child: subprocess.Popen[bytes], count: int, deadline: float) -> bytes:
        assert child.stdout is not None
        descriptor = child.stdout.fileno()
        found = bytearray()
        while len(found) < count:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            piece = os.read(descriptor, min(_PIECE, count - len(found)))
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._child = subprocess.Popen(
                [*python_command(_MODULE), str(self._memory_bytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=python_environment() | {"PYTHONPATH": os.pathsep.join(import_path())},
                start_new_session=True,
            )
        return self._child

    def _reason(self, request: Mapping[str, Any], error: Exception) -> str:
        child = self._child
        if isinstance(error, TimeoutError):
            why = f"took longer than {self._timeout_s:g} s"
        elif child is None:
            why = f"cannot be started: {error}"
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)
            why = f"took more than {self._memory_bytes >> 20} MB, or crashed (exit code {child.returncode})"
        self._end()
        page = request.get("page")
        what = f"the page {page['page']}" if page else f"pages of {request.get('folder') or 'two epochs'}"
        return f"{what}: the process that opens pages {why}"

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written
                    pipe.close()
