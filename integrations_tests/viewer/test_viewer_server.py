"""``stepscope view`` as a process of its own: started, asked while a training writes, and ended."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from answer_columns import columns_of
from browser import chromium
from viewer_pages import BUILT, viewer_page
from viewer_process import command, viewing
from waiting import until

import stepscope

MOST_LOG_BYTES = 20 * 10**6
"""The writer folds its log into the store at 4 MB, unless somebody reads just then."""
TRAINING = """
import sys, stepscope
run = stepscope.open_run(sys.argv[1], sinks=[])
names = [f"layer.{number}" for number in range(200)]
step = 0
while True:
    run.scalars(names, [float(step)] * 200, step=step)
    step += 1
    if step % 20 == 0:
        run.flush(60)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run that has ended."""
    folder = tmp_path_factory.mktemp("viewed") / "exp"
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(100):
            run.scalar("loss", step, step=step)
    return folder


@pytest.fixture
def training(tmp_path):
    """A training that writes until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", TRAINING, tmp_path / "live"])
    until((tmp_path / "live" / "run.json").exists)
    yield process
    process.kill()
    process.wait()


def test_a_laptop_without_torch_sees_the_run_and_ctrl_c_ends_it_beside_an_open_connection(ended):
    with viewing(ended, "--port", "0", missing=["torch", "matplotlib", "pandas"]) as viewer:
        (run,) = viewer.json("runs")["runs"]
        meta, columns = columns_of(viewer.get(f"api/series?run={run['key']}&name=loss")[1])
        assert (meta["form"], columns["value"].tolist()) == ("points", list(range(100)))
        assert viewer.json(f"verdict?run={run['key']}")
        address = urlsplit(viewer.url)
        kept_open = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        kept_open.request("GET", "/api/runs")
        kept_open.getresponse().read()
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.process.wait(60) == 0
        kept_open.close()


@pytest.mark.slow
def test_two_viewers_on_one_run_take_different_ports(ended):
    with ExitStack() as stack:
        viewers = [stack.enter_context(viewing(ended)) for _ in range(2)]
        assert len({viewer.url for viewer in viewers}) == 2
        assert len({json.dumps(viewer.json("runs")) for viewer in viewers}) == 1


@pytest.mark.parametrize(
    ("arguments", "missing", "said"),
    [
        pytest.param(
            ["--port", "{taken}"],
            (),
            "port {taken} is in use; expected a free one, or --port 0 for any",
            id="port in use",
        ),
        pytest.param(
            ["--host", "192.0.2.7"], (), "cannot listen at 192.0.2.7:", id="foreign host", marks=pytest.mark.slow
        ),
        pytest.param(
            ["--host", ""],
            (),
            "host is ''; expected an address of this machine",
            id="empty host",
            marks=pytest.mark.slow,
        ),
        pytest.param(["nowhere"], (), "nowhere is not a folder", id="no run", marks=pytest.mark.slow),
        pytest.param([], ["starlette"], "pip install 'stepscope[viewer]'", id="no starlette"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(ended, arguments, missing, said):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        arguments = [one.format(taken=port) for one in arguments]
        done = subprocess.run(
            command(ended, *arguments, missing=missing), capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 2
    assert said.format(taken=port) in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_address_for_others_needs_the_token(ended):
    with viewing(ended, "--port", "0", "--host", "0.0.0.0") as viewer:
        port = urlsplit(viewer.url).port
        token = viewer.url.partition("?token=")[2]
        assert len(token) > 40
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

        def status(path, **headers):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.headers.get("set-cookie")

        assert status("/api/runs")[0] == 403
        assert status("/api/runs?token=wrong")[0] == 403
        _, cookie = status(f"/?token={token}")
        assert status("/api/runs", Cookie=cookie.partition(";")[0])[0] == 200
        connection.close()


@pytest.mark.slow
def test_a_live_run_shows_what_is_new_and_its_log_does_not_grow(training, tmp_path):
    with viewing(tmp_path, "--port", "0") as viewer:
        until(lambda: viewer.json("runs")["runs"])
        (run,) = viewer.json("runs")["runs"]
        assert (run["status"], run["live"]) == ("running", True)
        key = run["key"]
        until(lambda: viewer.json(f"names?run={key}")["names"])
        meta, _ = columns_of(viewer.get(f"api/series?run={key}&name=layer.7")[1])
        store = tmp_path / "live" / "store" / "rank_00000"
        seen, asked, logs = {meta["last_step"]}, 0, []
        names = viewer.json(f"names?run={key}")
        started, least = time.monotonic(), 2 * MOST_LOG_BYTES
        while len(seen) < 8 or sum(path.stat().st_size for path in store.glob("*.db")) < least:
            assert time.monotonic() - started < 120
            viewer.json(f"positions?runs={key}")
            names = viewer.json(f"names?run={key}&since={names['position']}")
            new, points = columns_of(viewer.get(f"api/series?run={key}&name=layer.7&since={meta['cursor']}")[1])
            if not new["whole"]:
                assert (points["step"] > meta["last_step"]).all()
            meta = new
            seen.add(meta["last_step"])
            asked += 1
            logs += [path.stat().st_size for path in store.glob("*.db-wal")]
        assert max(logs) < MOST_LOG_BYTES, "a reader that keeps a transaction open makes the log grow without end"
        assert training.poll() is None

        training.kill()
        training.wait()
        until(lambda: viewer.json(f"positions?runs={key}")[key]["status"] == "failed")
        _, points = columns_of(viewer.get(f"api/series?run={key}&name=layer.7&width=20000")[1])
        assert set(points["step"].tolist()) >= seen
        assert viewer.peak_mb() < 300


def test_what_a_training_stores_is_visible_at_the_next_question(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, viewing(tmp_path, "--port", "0") as viewer:
        (listed,) = viewer.json("runs")["runs"]
        before = viewer.json(f"positions?runs={listed['key']}")
        run.scalar("loss", 1.0, step=0)
        assert run.flush_store(60)
        assert viewer.json(f"positions?runs={listed['key']}") != before
        with stepscope.open_run(tmp_path / "second", sinks=[]):
            pass
        until(lambda: len(viewer.json("runs")["runs"]) == 2)
        assert Path(listed["folder"]) == tmp_path / "run"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(chromium() is None, reason="no chromium here: apt-get install chromium")
@pytest.mark.skipif(not BUILT.is_file(), reason="the viewer's page is not built: make page")
def test_a_browser_needs_the_token_once_and_keeps_it_out_of_the_address(ended):
    with viewing(ended, "--port", "0", "--token") as viewer, viewer_page() as (page, complaints):
        assert viewer.get("")[0] == 403
        page.goto(viewer.url)
        page.get_by_text("exp").first.wait_for(state="attached")
        assert "token" not in page.url
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.get_by_text("exp").first.wait_for(state="attached")
        assert complaints == []
