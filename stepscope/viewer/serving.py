"""Serves the viewer on a port of this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tracker_adapters.errors import MissingPackageError, RunError

from stepscope.viewer.security import is_host_name, is_loopback
from stepscope.viewer.watched_runs import RunList

if TYPE_CHECKING:
    from types import FrameType

    import uvicorn

PORT = 8765
PORTS_TRIED = 50
LEAVE_WITHIN_S = 1
MOST_FILES = 16_384
INSTALL = "stepscope view needs starlette and uvicorn: pip install 'stepscope[viewer]'"


def listen(host: str, port: int | None) -> socket.socket:
    """Returns a socket that listens.

    Args:
        host: The address, or a name of this machine.
        port: The port, 0 for any free one; None for 8765, or the next free one behind it.

    Raises:
        RunError: When the port is in use, or the host is empty or none of this machine's.
    """
    if not host:  # the system would take it for all addresses
        raise RunError("host is ''; expected an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(PORT, PORT + PORTS_TRIED) if port is None else [port]:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            if error.errno == errno.EADDRINUSE:
                raise RunError(f"port {number} is in use; expected a free one, or --port 0 for any") from error
            raise RunError(f"cannot listen at {host}:{number}: {error.strerror or error}") from error
        return listener
    raise RunError(f"the ports {PORT} to {PORT + PORTS_TRIED - 1} are in use; choose another with --port")


def check_allowed(names: Sequence[str]) -> None:
    """Raises RunError for what no request can name as its host, such as a URL or a name with a port."""
    for name in names:
        if not is_host_name(name):
            example = "such as viewer.example.org"
            raise RunError(f"the allowed host is {name!r}; expected a name without scheme, port and path, {example}")


def why_not() -> str:
    """Returns why there is no viewer here; empty when there is one."""
    if any(find_spec(package) is None for package in ("starlette", "uvicorn")):
        return INSTALL
    from stepscope.viewer.app import BUILT, NOT_BUILT

    return "" if (BUILT / "page.js").is_file() else NOT_BUILT


def new_token() -> str:
    """Returns a secret of 256 bits."""
    return secrets.token_urlsafe(32)


class ViewerServer:
    """A viewer that listens from the start, and answers once it is run."""

    def __init__(
        self,
        runs: RunList,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        token: bool | None = None,
        allowed: Sequence[str] = (),
    ) -> None:
        """Listens.

        Args:
            runs: The runs to look at.
            host: The address; another machine can reach all but the loopback ones.
            port: As in ``listen``.
            token: Whether who asks must know a secret, which is in ``url``; always for an address that other machines
                can reach, and with ``allowed``.
            allowed: Further names under which the viewer is reached, such as that of a proxy before it.

        Raises:
            MissingPackageError: Without starlette or uvicorn.
            RunError: As ``listen``, and for a name in ``allowed`` that is none of a host.
        """
        check_allowed(allowed)
        try:
            import uvicorn

            from stepscope.viewer.app import make_app
            from stepscope.viewer.connections import KEEP_ALIVE_S, MOST_CONNECTIONS, Connection
            from stepscope.viewer.security import Guard
        except ImportError as error:
            raise MissingPackageError(INSTALL) from error
        self._runs = runs
        self._ending = asyncio.Event()
        self._listener = listen(host, port)
        self.port = self._listener.getsockname()[1]
        self.token = new_token() if token or allowed or not is_loopback(host) else None
        config = uvicorn.Config(
            Guard(make_app(runs, self._ending), host=host, port=self.port, token=self.token, allowed=allowed),
            log_level="warning",
            access_log=False,
            lifespan="off",
            http=Connection,
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LEAVE_WITHIN_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=2 * MOST_CONNECTIONS,  # those that just came or were lost are counted, too
        )
        self._server = _server(config, self._ending)
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
        shown = f"[{shown}]" if ":" in shown else shown
        self.url = f"http://{shown}:{self.port}/{f'?token={self.token}' if self.token else ''}"

    def run(self, when_ready: Callable[[], object] = lambda: None) -> None:
        """Answers until Ctrl-C, SIGTERM or ``stop``; ``when_ready`` is called in another thread at the beginning."""
        threading.Thread(target=when_ready, name="viewer-ready", daemon=True).start()
        try:
            self._server.run(sockets=[self._listener])
        except KeyboardInterrupt:
            pass
        finally:
            self._listener.close()
            self._runs.close()

    def stop(self) -> None:
        """Ends ``run`` from another thread."""
        self._server.handle_exit(signal.SIGTERM, None)


def _server(config: uvicorn.Config, ending: asyncio.Event) -> uvicorn.Server:
    """A server that says when it ends to those who wait for an answer: uvicorn cancels them, with a traceback."""
    import uvicorn

    from stepscope.viewer.answers.table import import_first

    class Server(uvicorn.Server):
        _loop: asyncio.AbstractEventLoop | None = None

        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            self._loop = asyncio.get_running_loop()
            await super().serve(sockets)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            threading.Thread(target=import_first, args=(self.is_asked,), name="viewer-first", daemon=True).start()

        def is_asked(self) -> bool:
            """Whether somebody asks, or has: uvicorn counts a request after the last byte of its answer."""
            return bool(self.server_state.connections or self.server_state.total_requests)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(ending.set)

    return Server(config)


def allow_open_files() -> None:
    """Raises the soft limit of open files: a long run has a file for each 256 MB, and several runs are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def end_process() -> None:
    """Ends the process without the threads that compute answers for nobody: they cannot be interrupted."""
    deadline = time.monotonic() + LEAVE_WITHIN_S
    others = [one for one in threading.enumerate() if one is not threading.current_thread() and not one.daemon]
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
