"""The application: answers with entity tags, errors in one line, and no file but the page's."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import threading

import anyio
import pytest
from starlette.testclient import TestClient
from tracker_adapters.store.layout import rank_folder, segments

import stepscope
from stepscope.viewer import app as app_module
from stepscope.viewer import watched_runs
from stepscope.viewer.answers import layers, recent, verdict
from stepscope.viewer.answers.answer import json_answer
from stepscope.viewer.answers.table import ANSWERS
from stepscope.viewer.app import make_app
from stepscope.viewer.watched_runs import RunList


@pytest.fixture
def folder(tmp_path):
    """A folder with one run."""
    with stepscope.open_run(tmp_path / "runs" / "exp", sinks=[]) as run:
        for step in range(50):
            run.scalar("loss", step, step=step)
        run.alert("<img onerror=x>", "text <b>", step=3)
    return tmp_path / "runs"


@pytest.fixture
def client(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(watched_runs, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(watched_runs, "LOOK_SHARE", 0)
    for name, text in (("page/index.html", "<p>page"), ("page/source.js", "no"), ("built/page.js", "1"), ("key", "no")):
        path = tmp_path / "viewer" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    runs = RunList([folder])
    with TestClient(make_app(runs, page=tmp_path / "viewer" / "page", built=tmp_path / "viewer" / "built")) as client:
        yield client
    runs.close()


def key_of(client):
    (run,) = client.get("/api/runs").json()["runs"]
    return run["key"]


def test_the_page_is_served_and_no_other_file(client):
    assert client.get("/").text == "<p>page"
    script = client.get("/page.js")
    assert script.headers["content-type"].startswith("text/javascript")
    for path in ("/source.js", "/../key", "/%2e%2e/key", "/..%2fkey", "/built/page.js", "/index.htm", "/.hidden", "/x"):
        assert client.get(path).status_code == 404, path


def test_a_page_that_was_not_built_says_how(client, tmp_path):
    (tmp_path / "viewer" / "built" / "page.js").unlink()
    answer = client.get("/")
    assert (answer.status_code, answer.text) == (503, app_module.NOT_BUILT)


def test_an_answer_is_not_sent_again_until_the_run_has_more(client, folder):
    address = f"/api/series?run={key_of(client)}&name=loss"
    first = client.get(address)
    tag = {"if-none-match": first.headers["etag"]}
    assert client.get(address, headers=tag).status_code == 304
    assert client.get(address).content == first.content
    with stepscope.open_run(folder / "exp", sinks=[], resume=True) as run:
        run.scalar("loss", 1.0, step=99)
    again = client.get(address, headers=tag)
    assert (again.status_code, len(again.content)) == (200, len(first.content) + 24)


def test_errors_are_one_line_of_json(client):
    key = key_of(client)
    for address, status in (
        ("series?run=nope&name=loss", 404),
        (f"series?run={key}&name=lose", 404),
        (f"series?run={key}", 400),
        (f"series?run={key}&name=loss&width=x", 400),
        ("nothing", 404),
        ("%2e%2e/%2e%2e/etc/passwd", 404),
        ("positions", 400),
    ):
        answer = client.get(f"/api/{address}")
        assert answer.status_code == status, address
        assert "\n" not in answer.json()["error"]
        assert answer.headers["content-type"] == "application/json"


def test_hostile_names_arrive_as_they_are(client):
    (alert,) = client.get(f"/api/alerts?run={key_of(client)}").json()["alerts"]
    assert (alert["name"], alert["message"], alert["step"]) == ("<img onerror=x>", "text <b>", 3)


def test_a_run_that_was_deleted_answers_that_it_is_gone_and_the_rest_goes_on(client, folder):
    key = key_of(client)
    address = f"/api/series?run={key}&name=loss"
    assert client.get(address).status_code == 200
    shutil.rmtree(folder / "exp")
    gone = client.get(address)
    assert (gone.status_code, "exp" in gone.json()["error"]) == (410, True)
    assert client.get(f"/api/positions?runs={key}").json()[key]["status"] == "unreadable"
    assert client.get("/api/runs").json() == {"runs": [], "named": [], "unreadable": []}


def damaged_manifest(folder):
    (folder / "run.json").write_text("{")


def newer_schema(folder):
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"schema_version": 999}))


def damaged_store(folder):
    path = segments(rank_folder(folder, 0))[0]
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)


def other_tables(folder):
    with sqlite3.connect(segments(rank_folder(folder, 0))[0]) as connection:
        connection.execute("CREATE VIEW v AS SELECT 1")
    connection.close()


def empty(folder):
    shutil.rmtree(folder / "store")


def linked_store(folder):
    (folder / "store").rename(folder.parent.parent / "elsewhere")
    (folder / "store").symlink_to(folder.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    "harm",
    [
        damaged_manifest,
        damaged_store,
        linked_store,
        *(pytest.param(harm, marks=pytest.mark.slow) for harm in (newer_schema, other_tables, empty)),
    ],
    ids=lambda one: one.__name__,
)
def test_a_run_that_cannot_be_read_is_one_error_and_hides_no_other(client, folder, harm):
    key = key_of(client)
    with stepscope.open_run(folder / "sound", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    harm(folder / "exp")
    listed = client.get("/api/runs").json()
    assert "sound" in [run["name"] for run in listed["runs"]]
    assert len(listed["runs"]) + len(listed["unreadable"]) == 2
    for path in ("series", "names", "alerts", "positions", "verdict", "run"):
        answer = client.get(f"/api/{path}?run={key}&runs={key}&name=loss")
        assert answer.status_code in (200, 404, 410), (path, answer.text)
        found = answer.json()
        if answer.status_code != 200:
            assert "\n" not in found["error"]
    assert client.get(f"/api/series?run={key}&name=loss").status_code != 200
    (sound,) = [run["key"] for run in listed["runs"] if run["name"] == "sound"]
    assert client.get(f"/api/series?run={sound}&name=loss").status_code == 200


@pytest.mark.slow
def test_fifty_runs_are_asked_for_at_once(client, folder):
    for number in range(50):
        with stepscope.open_run(folder / f"run{number}", sinks=[]) as run:
            run.scalar("loss", number, step=0)
    keys = [run["key"] for run in client.get("/api/runs").json()["runs"]]
    assert len(keys) == 51
    positions = client.get(f"/api/positions?runs={','.join(keys)}").json()
    assert all(state["status"] == "finished" for state in positions.values())
    for key in keys:
        assert client.get(f"/api/series?run={key}&name=loss").status_code == 200


@pytest.mark.parametrize("slow", ["judged?run=", "layers?statistic=norm&run="])
def test_what_takes_long_keeps_nothing_else_waiting(client, monkeypatch, slow):
    key, go_on, done = key_of(client), threading.Event(), []
    path, known = slow.partition("?")[0], ANSWERS[slow.partition("?")[0]]

    def answer_late(runs, query):
        if "detail" in query.parameters:
            return known(runs, query)
        assert go_on.wait(60)
        return json_answer({})

    monkeypatch.setitem(ANSWERS, path, answer_late)
    threads = [
        threading.Thread(target=lambda i=i: done.append(client.get(f"/api/{slow}{key}&first={i}"))) for i in range(9)
    ]
    for thread in threads:
        thread.start()
    try:
        for address in (f"series?run={key}&name=loss", f"positions?runs={key}", f"layers?run={key}"):
            if address.partition("?")[0] != path or "layers" in slow:
                assert client.get(f"/api/{address}&detail=overview").status_code == 200
        assert done == []
    finally:
        go_on.set()
        for thread in threads:
            thread.join(60)
    assert [one.status_code for one in done] == [200] * 9


@pytest.mark.parametrize(("path", "expected"), [("runs", True), ("positions", False)])
def test_what_nobody_has_asked_for_is_imported_when_nothing_else_is_to_be_done(folder, monkeypatch, path, expected):
    imported = threading.Event()
    monkeypatch.setattr(app_module, "import_answers", imported.set)
    monkeypatch.setattr(app_module, "IMPORT_AFTER_S", 0)

    async def send(message):
        pass

    async def ask():
        scope = {"type": "http", "method": "GET", "path": f"/api/{path}", "query_string": b"", "headers": []}
        await make_app(RunList([folder]))(scope, None, send)
        if expected:
            assert await anyio.to_thread.run_sync(imported.wait, 60)

    anyio.run(ask)
    assert imported.is_set() is expected


def test_the_page_waits_for_nothing_that_reads_and_a_chart_for_no_module_of_another_answer(folder):
    code = """
import sys
import stepscope.commands.view_command
import stepscope.viewer.serving
import stepscope.viewer.app
from stepscope.viewer.watched_runs import RunList
assert len(RunList(sys.argv[1:]).all()) == 1
reading = ["numpy", "tracker_adapters.artifacts", "tracker_adapters.store.reading.record"]
assert not [one for one in reading if one in sys.modules], sys.modules
import stepscope.viewer.answers.series
from stepscope.viewer.answers.table import ANSWERS, _MODULES, import_answers
others = ["debuggers.diagnosis.rules", "debuggers.page_files", "stepscope.diagnosing.stored_evidence"]
writing = ["stepscope.runs.opening", "stepscope.sessions", "tracker_adapters.store.writing", "psutil", "webbrowser"]
assert not [one for one in others + writing if one in sys.modules], sys.modules
import_answers()
for module, paths in _MODULES.items():
    assert all(callable(getattr(sys.modules[f"stepscope.viewer.answers.{module}"], f"{path}_answer")) for path in paths)
assert len(ANSWERS) == sum(map(len, _MODULES.values()))
"""
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_nobody_waits_for_an_answer_when_the_viewer_ends(folder, monkeypatch):
    asked, go_on = threading.Event(), threading.Event()

    def slow(runs, query):
        asked.set()
        go_on.wait(60)
        return json_answer({})

    monkeypatch.setitem(ANSWERS, "slow", slow)
    runs, sent = RunList([folder]), []

    async def send(message):
        sent.append(message)

    async def ask():
        ending = asyncio.Event()
        scope = {"type": "http", "method": "GET", "path": "/api/slow", "query_string": b"", "headers": []}
        async with anyio.create_task_group() as group:
            group.start_soon(make_app(runs, ending), scope, None, send)
            assert await anyio.to_thread.run_sync(asked.wait, 60)
            ending.set()

    try:
        anyio.run(ask)
        assert not go_on.is_set()
        assert sent[0]["status"] == 503
        assert sent[1]["body"] == b'{"error":"the viewer ends"}'
    finally:
        go_on.set()
        runs.close()


def test_an_answer_that_is_behind_its_run_is_no_answer_for_later(client, folder, monkeypatch):
    monkeypatch.setattr(recent, "EVERY_S", 3600.0)
    with stepscope.open_run(folder / "exp", sinks=[], resume=True) as run:
        run.flush_store()
        addresses = [f"/api/verdict?run={key_of(client)}", f"/api/layers?run={key_of(client)}"]
        assert [client.get(address).json()["behind"] for address in addresses] == [False, False]
        run.scalar("loss", 1.0, step=99)
        run.flush_store()
        assert [client.get(address).json()["behind"] for address in addresses] == [True, True]
        for module, name in ((verdict, "_verdicts"), (layers, "_statistics")):  # as after its time
            monkeypatch.setattr(module, name, recent.Recent(4))
        assert [client.get(address).json()["behind"] for address in addresses] == [False, False]
