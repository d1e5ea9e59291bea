"""A real S3 endpoint on 127.0.0.1 (moto's server), behind a proxy that does faults to its connections."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import free_port, serving

BUCKET = "bucket"
BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class FaultyProxy:
    """Passes connections on to a server. ``mode`` says what it does to those that come from now on.

    ``pass``; ``refuse``: closes them at once; ``busy``: answers 503; ``hole``: never answers; ``cut``: closes them
    after ``cut_after`` bytes from the client; ``stall``: after as many, passes nothing on any more.
    """

    target: int
    mode: str = "pass"
    cut_after: int = 20_000
    faults: int = 0
    """How many connections a fault was done to."""
    port: int = field(default_factory=free_port)

    @contextmanager
    def running(self) -> Iterator[FaultyProxy]:
        """Listens until the block ends."""
        with socket.create_server(("127.0.0.1", self.port)) as listener:
            thread = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            thread.start()
            yield self
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, self.mode), daemon=True).start()

    def _serve(self, client: socket.socket, mode: str) -> None:
        with client:
            if mode in ("refuse", "busy"):
                self.faults += 1
                if mode == "busy":
                    client.recv(65536)
                    client.sendall(BUSY)
                return
            if mode == "hole":
                self.faults += 1
                while client.recv(65536):
                    pass
                return
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                left = self.cut_after if mode in ("cut", "stall") else None
                if _pump(client, server, left):
                    self.faults += 1
                    while mode == "stall" and client.recv(65536):
                        pass
                    client.close()
                else:
                    back.join(60)


def _pump(source: socket.socket, target: socket.socket, limit: int | None = None) -> bool:
    """Copies until the end; returns whether it stopped at ``limit``."""
    passed = 0
    try:
        while data := source.recv(65536):
            passed += len(data)
            if limit is not None and passed > limit:
                return True
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    return False


@dataclass(frozen=True)
class S3:
    """The endpoint. ``variables`` are the environment with which a client finds it, through the proxy."""

    proxy: FaultyProxy
    variables: dict[str, str]
    direct: Any
    """s3fs's file system, past the proxy."""


@contextmanager
def s3_endpoint(folder: Path) -> Iterator[S3]:
    """Starts the server and the proxy, with one empty bucket."""
    import s3fs

    port = free_port()
    command = [str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with serving(command, port=port, log=folder / "moto.log", path="/moto-api/") as url:
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "zanzibar-s3-4711"}
        direct = s3fs.S3FileSystem(
            endpoint_url=url,
            key=keys["AWS_ACCESS_KEY_ID"],
            secret=keys["AWS_SECRET_ACCESS_KEY"],
            skip_instance_cache=True,
            use_listings_cache=False,
        )
        direct.mkdir(BUCKET)
        with FaultyProxy(port).running() as proxy:
            variables = {
                **keys,
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
                "no_proxy": os.environ.get("no_proxy", "") + ",127.0.0.1",
            }
            yield S3(proxy, variables, direct)
