"""A receiver of webhooks on this machine: keeps what is posted, and answers as it is told."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """``posts`` has path, headers and body of each request; ``answers`` the statuses of the next ones, else 200."""

    def __init__(self, port, answers):
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with receiver.lock:
                    receiver.posts.append((self.path, dict(self.headers), body))
                    status = receiver.answers.pop(0) if receiver.answers else 200
                    receiver.arrived.notify_all()
                receiver.open_gate.wait(60)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST  # noqa: N815  # what a redirection would ask for

            def log_message(self, *args):
                pass

        self.posts, self.answers = [], [*answers]
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook/T0P53CR3T"

    def wait_for(self, number, timeout=60):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.posts) >= number, timeout), self.posts


@contextmanager
def receiver(port=0, answers=()):
    one = Receiver(port, answers)
    thread = threading.Thread(target=one.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        one.open_gate.set()
        one.server.shutdown()
        one.server.server_close()
        thread.join(10)
