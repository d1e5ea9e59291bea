"""What a run is, and what became of its artifacts."""

import json
import threading

import pytest
from tracker_adapters.remote.opening import upload_existing
from tracker_adapters.remote.upload import upload
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder, segments
from tracker_adapters.store.ledger import Ledger, position_key
from tracker_adapters.testing import MemorySink

import stepscope
from stepscope.viewer.answers.answer import Gone
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file.txt").write_text("x" * 1000)
    for attempt in range(2):
        with stepscope.open_run(
            tmp_path / "run",
            sinks=[MemorySink()],
            delivery="thread",
            config={"a": {"b": 1}},
            tags=["t"],
            resume=attempt > 0,
        ) as run:
            run.scalar("loss", 1.0, step=attempt)
            run.file(tmp_path / "file.txt", media_type="text/plain", step=attempt)
    return tmp_path / "run"


def asked(folder):
    runs = RunList([folder])
    [run] = runs.all()
    return json.loads(answer(runs, f"run?run={run.key}").body)


def test_a_run_tells_what_it_is(folder):
    found = asked(folder)
    assert (found["name"], found["status"], found["live"], found["tags"]) == ("run", "finished", False, ["t"])
    assert found["config"] == {"a.b": 1}
    assert found["environment"]["python"]
    assert found["created_ms"] < found["ended_ms"]
    assert found["kinds"] == {"file": {"names": 1, "artifacts": 2}, "scalar": {"names": 1, "artifacts": 2}}
    [rank] = found["ranks"]
    assert (rank["rank"], rank["stored"], rank["live"]) == (0, 4, False)
    states = [(one["attempt"], one["stored"], one["state"]) for one in rank["attempts"]]
    assert states == [(1, 2, "followed by another"), (2, 2, "finished")]
    assert found["sizes"]["blobs"] == 1000
    assert found["sizes"]["store"] >= rank["bytes"] > 0
    assert found["damage"] == []


def test_each_sink_is_told_with_what_it_has_not_got(folder):
    [sink] = asked(folder)["delivery"]
    assert (sink["delivered"], sink["pending"], sink["state"], sink["command"]) == (4, 0, "done", "")
    with Ledger(rank_folder(folder, 0)) as ledger:
        old = ledger.register("local", str(folder / "local"))
        key = position_key("local", str(folder / "local"))
        ledger.advance(key, old, seq=3, token=b"", unshown={"late_step": 1})
        ledger.note_failure(key, "retrying", "disk full", failures=2, bisection="")
    sink = next(one for one in asked(folder)["delivery"] if one["sink"] == "local")
    assert (sink["delivered"], sink["pending"], sink["failed"], sink["error"]) == (2, 1, {"late_step": 1}, "disk full")
    assert sink["command"].startswith("stepscope sync ")
    assert sink["command"].endswith(" --to local")


def test_what_is_damaged_is_named(folder):
    (rank_folder(folder, 0) / DELIVERY_DATABASE).write_bytes(b"no database" * 1000)
    found = asked(folder)
    assert found["delivery"] == []
    assert any(DELIVERY_DATABASE in line for line in found["damage"])
    assert found["kinds"]["scalar"]["artifacts"] == 2


def test_a_run_whose_store_is_damaged_says_so_and_what_it_is(folder):
    [segment] = segments(rank_folder(folder, 0))
    segment.write_bytes(b"no database" * 1000)
    found = asked(folder)
    assert found["name"] == "run"
    assert any(segment.name in line for line in found["damage"])


def test_a_run_that_was_deleted_is_gone(folder):
    runs = RunList([folder])
    [run] = runs.all()
    (folder / "run.json").unlink()
    with pytest.raises(Gone, match=r"run\.json"):
        answer(runs, f"run?run={run.key}")


def test_a_live_run_is_told_as_one(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        run.flush_store()
        found = asked(tmp_path / "run")
        assert (found["status"], found["live"], found["ended_ms"]) == ("running", True, None)
        assert found["ranks"][0]["attempts"][0]["state"] == "running"


def test_a_run_at_a_url_has_its_url_as_folder(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    upload_existing(tmp_path / "run", "memory://details/run")
    assert upload(tmp_path / "run", stopping=threading.Event(), give_up_s=60, wait_s=60) == "done"
    assert asked("memory://details/run")["folder"] == "memory://details/run"
