"""Those who ask are answered, also beside connections that ask for nothing or take nothing."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest
from waiting import until

import stepscope
from stepscope.viewer import connections
from stepscope.viewer.answers import table
from stepscope.viewer.serving import ViewerServer
from stepscope.viewer.watched_runs import RunList

WAITS_S = 30.0
VALUES = 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewed") / "exp"
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(VALUES):
            run.scalar("loss", step, step=step)
    return folder


@contextmanager
def serving(folder, **settings):
    server = ViewerServer(RunList([folder]), port=0, **settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(WAITS_S)
        assert not thread.is_alive()


def test_what_the_page_shows_first_is_imported_while_the_browser_starts(folder, monkeypatch):
    imported, verdict = [], threading.Event()

    def import_module(name):
        imported.append(name.rpartition(".")[2])
        if imported[-1] == "verdict":
            verdict.set()

    monkeypatch.setattr(table, "import_module", import_module)
    with serving(folder):
        assert verdict.wait(WAITS_S)
    assert imported == ["runs", "names", "alerts", "series", "verdict"]


def test_who_asks_before_all_is_imported_waits_for_no_module_of_the_verdict(folder, monkeypatch):
    imported, go_on, done = [], threading.Event(), threading.Event()
    import_first = table.import_first

    def import_module(name):
        assert go_on.wait(WAITS_S)
        imported.append(name.rpartition(".")[2])

    def watched(is_asked):
        import_first(is_asked)
        done.set()

    monkeypatch.setattr(table, "import_first", watched)
    monkeypatch.setattr(table, "import_module", import_module)
    with serving(folder) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAITS_S)
        connection.request("GET", "/page.js")
        connection.getresponse().read()
        connection.close()
        go_on.set()
        assert done.wait(WAITS_S)
    assert imported == ["runs", "names", "alerts", "series"]


def test_who_comes_through_a_proxy_needs_the_token(folder):
    with serving(folder, allowed=["viewer.example"]) as server:
        assert server.token and server.token in server.url
        for path, expected in (("/api/runs", b"403"), (f"/api/runs?token={server.token}", b"200")):
            sent = f"GET {path} HTTP/1.1\r\nHost: viewer.example\r\nConnection: close\r\n\r\n".encode()
            with connected(server, sent) as one:
                assert received(one).split()[1] == expected


def connected(server, sent=b"", receive_bytes=None):
    one = socket.socket()
    if receive_bytes:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.settimeout(WAITS_S)
    one.connect(("127.0.0.1", server.port))
    one.sendall(sent)
    return one


def asked(server, address):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAITS_S)
    try:
        connection.request("GET", f"/api/{address}")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def received(one):
    """All that a connection gets until it is closed."""
    parts = []
    try:
        while part := one.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: lo"], ids=["idle", "half a request"])
def test_300_connections_that_do_not_ask_starve_nobody(folder, token, sent):
    with serving(folder, token=token) as server, ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connected(server, sent))
        for _ in range(3):
            assert asked(server, "runs")[0] == (403 if token else 200)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: lo", b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /"],
    ids=["nothing", "half a request", "half a second request"],
)
def test_a_request_has_a_deadline(folder, monkeypatch, sent):
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 0.5)
    monkeypatch.setattr(connections, "KEEP_ALIVE_S", 0.5)
    with serving(folder) as server, connected(server, sent) as one:
        assert received(one).count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")


def test_parts_of_a_request_put_its_deadline_off_no_further(folder, monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 0.3)
    with serving(folder) as server, connected(server, b"GET / HTTP/1.1\r\n") as one:
        one.settimeout(0.02)

        def is_closed():
            try:
                one.sendall(b"a")
                return not one.recv(1)
            except TimeoutError:
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True

        until(is_closed, WAITS_S)


def test_who_does_not_take_an_answer_is_not_waited_for(folder, monkeypatch):
    with serving(folder) as server:
        (run,) = json.loads(asked(server, "runs")[1])["runs"]
        address = f"series?run={run['key']}&name=loss&width=20000"
        whole = len(asked(server, address)[1])
        monkeypatch.setattr(connections, "KEEP_ALIVE_S", 1.0)
        monkeypatch.setattr(connections, "LEAST_BYTES_A_SECOND", 10**9)
        request = f"GET /api/{address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        with connected(server, request * 20, receive_bytes=4096) as one:
            assert one.recv(1)
            until(lambda: not server._server.server_state.connections, WAITS_S)
            assert len(received(one)) < 20 * whole


def run_key(server):
    (run,) = json.loads(asked(server, "runs")[1])["runs"]
    return run["key"]


def test_a_series_is_sent_as_csv_while_it_is_written(folder):
    with serving(folder) as server:
        status, body = asked(server, f"csv?runs={run_key(server)}&name=loss")
        lines = body.decode().splitlines()
        assert (status, len(lines)) == (200, VALUES + 1)
        assert lines[-1].split(",")[2:] == [str(VALUES - 1), lines[-1].split(",")[3], f"{VALUES - 1}.0", "", ""]


def test_who_takes_nothing_does_not_keep_the_server_from_its_end(folder, caplog, capfd):
    answers = 30
    with serving(folder) as server:
        address = f"csv?runs={run_key(server)}&name=loss"
        request = f"GET /api/{address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        one = connected(server, request * answers, receive_bytes=4096)
        until(lambda: any(sent.flow.write_paused for sent in server._server.server_state.connections), WAITS_S)
    with one:
        assert len(received(one)) < answers * VALUES * 30
    assert (caplog.text, capfd.readouterr().err) == ("", "")


def test_an_answer_that_takes_long_to_compute_has_no_deadline(folder, monkeypatch):
    from stepscope.viewer.answers.answer import json_answer
    from stepscope.viewer.answers.table import ANSWERS

    begun, go_on = threading.Event(), threading.Event()

    def slow(runs, query):
        begun.set()
        assert go_on.wait(WAITS_S)
        return json_answer("done")

    monkeypatch.setitem(ANSWERS, "slow", slow)
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 0.5)
    request = b"GET /api/slow HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with serving(folder) as server, connected(server, request) as one:
        assert begun.wait(WAITS_S)
        for _ in range(2):  # the deadline of a connection that came later has passed
            with connected(server) as idle:
                assert received(idle) == b""
        go_on.set()
        assert received(one).endswith(b'"done"')
