"""Serves the viewer on a port of this machine until Ctrl-C."""

from __future__ import annotations

import errno
import secrets
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec

from tracker_adapters.errors import MissingPackageError, RunError

from stepscope.viewer.security import is_loopback
from stepscope.viewer.watched_runs import RunList

PORT = 8765
PORTS_TRIED = 50
LEAVE_WITHIN_S = 1
KEEP_ALIVE_S = 30
MOST_CONNECTIONS = 256
INSTALL = "stepscope view needs starlette and uvicorn: pip install 'stepscope[viewer]'"


def listen(host: str, port: int | None) -> socket.socket:
    """Returns a socket that listens.

    Args:
        host: The address, or a name of this machine.
        port: The port, 0 for any free one; None for 8765, or the next free one behind it.

    Raises:
        RunError: When the port is in use, or the host is none of this machine's.
    """
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
        self, runs: RunList, *, host: str = "127.0.0.1", port: int | None = None, token: bool | None = None
    ) -> None:
        """Listens.

        Args:
            runs: The runs to look at.
            host: The address; another machine can reach all but the loopback ones.
            port: As in ``listen``.
            token: Whether who asks must know a secret, which is in ``url``; always for an address that other machines
                can reach.

        Raises:
            MissingPackageError: Without starlette or uvicorn.
            RunError: As ``listen``.
        """
        try:
            import uvicorn

            from stepscope.viewer.app import make_app
            from stepscope.viewer.security import Guard
        except ImportError as error:
            raise MissingPackageError(INSTALL) from error
        self._runs = runs
        self._listener = listen(host, port)
        self.port = self._listener.getsockname()[1]
        self.token = new_token() if token or not is_loopback(host) else None
        config = uvicorn.Config(
            Guard(make_app(runs), host=host, port=self.port, token=self.token),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LEAVE_WITHIN_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=MOST_CONNECTIONS,
        )
        self._server = uvicorn.Server(config)
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
        self._server.should_exit = True
