"""A TCP proxy that does to a server's clients what networks and overloaded servers do."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from servers import free_port


@dataclass
class Fault:
    """What happens to requests.

    Attributes:
        black_hole: Requests are read, and never answered.
        closes: Connections are closed.
        closes_kept: How many connections that had an answer are closed on their next request, as when a server has just
            ended them.
        after_bytes: What a connection passes on from its client before either of these two is done to it.
        delay_s: Seconds before each answer. Each request goes to the server on a connection of its own: a server ends
            one that was silent for some seconds, and this fault is slowness alone.
        status: Answers every request by itself, such as ``429 Too Many Requests``.
        cut: Beginnings of request lines, such as ``b"POST /api/2.0/mlflow/runs/create"``: the first request of each is
            carried out by the server, and the connection is closed in place of the answer.
    """

    black_hole: bool = False
    closes: bool = False
    closes_kept: int = 0
    after_bytes: int = 0
    delay_s: float = 0.0
    status: str = ""
    cut: list[bytes] = field(default_factory=list)


class TcpProxy:
    """Stands before a server on 127.0.0.1; ``fault`` can be changed at any time, ``None`` passes everything on."""

    def __init__(self, upstream_port: int) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.fault: Fault | None = None
        self.requests = self.faults = 0
        self.lost_answers = 0
        self._upstream = ("127.0.0.1", upstream_port)
        self._stopping = threading.Event()
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def listen(self) -> None:
        """Takes connections from now on."""
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.settimeout(0.1)
        self._start(self._accept, self._listener, self._stopping)

    def refuse(self) -> None:
        """Ends all connections and refuses new ones."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        self._threads.clear()

    def _start(self, function: object, *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, stopping: threading.Event) -> None:
        with listener:
            while not stopping.is_set():
                with suppress(TimeoutError):
                    client, _ = listener.accept()
                    self._start(self._serve, client, stopping)

    def _serve(self, client: socket.socket, stopping: threading.Event) -> None:  # noqa: PLR0912
        with suppress(OSError), client, ExitStack() as servers:
            server: socket.socket | None = servers.enter_context(socket.create_connection(self._upstream))
            request, passed, answers = b"", 0, 0
            while not stopping.is_set():
                readable, _, _ = select.select([client, *filter(None, [server])], [], [], 0.1)
                fault = self.fault or Fault()
                if client in readable:
                    data = client.recv(1 << 16)
                    if not data:
                        return
                    self.requests += not request
                    if fault.closes_kept and answers and not request:
                        fault.closes_kept -= 1
                        self.faults += 1
                        return
                    if not request and (fault.delay_s or server is None):
                        servers.close()
                        server = servers.enter_context(socket.create_connection(self._upstream))
                    request += data
                    passed += len(data)
                    is_lost = (fault.black_hole or fault.closes) and passed > fault.after_bytes
                    self.faults += is_lost
                    if is_lost and fault.closes:
                        return
                    if fault.status:
                        if _is_whole(request):
                            self.faults += 1
                            head = f"HTTP/1.1 {fault.status}\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
                            client.sendall(head.encode())
                            request = b""
                        continue
                    if not is_lost:
                        server.sendall(data)
                if server in readable:
                    data = server.recv(1 << 16)
                    if not data and (request or not fault.delay_s):
                        return
                    if not data:
                        server = None
                        continue
                    if request:
                        answers += 1
                        if self._cuts(fault, request):
                            return
                        stopping.wait(fault.delay_s)
                        request = b""
                    client.sendall(data)

    def _cuts(self, fault: Fault, request: bytes) -> bool:
        for beginning in list(fault.cut):
            if request.startswith(beginning):
                fault.cut.remove(beginning)
                self.lost_answers += 1
                return True
        return False


@contextmanager
def proxy_before(port: int) -> Iterator[TcpProxy]:
    """Runs a proxy before the server on a port until the block ends."""
    proxy = TcpProxy(port)
    proxy.listen()
    try:
        yield proxy
    finally:
        proxy.refuse()


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end) and len(body) >= (int(lengths[0].partition(b":")[2]) if lengths else 0)
