"""A run's folder from somebody else: nothing outside of it is read, written or removed, and nobody waits for a pipe."""

import hashlib
import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing, suppress

import pytest
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.errors import StepscopeError
from tracker_adapters.registry import load_sink
from tracker_adapters.safe_files import files_below
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.store.upkeep.retention import retain
from tracker_adapters.store.upkeep.retention_plan import plan

import stepscope
from stepscope.export.exporter import export_runs
from stepscope.query.database import query_runs

SECRET = b"precious\n" * 100
RANK = "store/rank_00000"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    (folder / "notes.txt").write_text("notes")
    with stepscope.open_run(folder / "run", sinks=["local", "tensorboard"], delivery="thread") as run:
        for step in range(20):
            run.scalar("loss", step, step=step)
        run.text("long", "x" * 300_000, step=1)
        run.file(folder / "notes.txt", step=1)
    return folder / "run"


@pytest.fixture
def run(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "run")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(SECRET)
    return tmp_path / "run"


def use_everything(run):
    """Whatever somebody would do with the run; errors are fine where they are ours."""

    def attempt(call):
        with suppress(StepscopeError):
            call()

    def read():
        with stepscope.read_run(run) as record:
            for info in record.names():
                attempt(lambda: record.scalars("loss"))
                attempt(lambda name=info.name: record.texts(name))
            attempt(record.files)

    def deliver(sink):
        options = load_sink(sink).resolve({}, run)
        worker = DeliveryWorker(run, 0, sink, options["target"], lambda: load_sink(sink)(**options), until="caught_up")
        thread = threading.Thread(target=lambda: attempt(worker.run), daemon=True)
        thread.start()
        thread.join(0.5)  # it tries again and again where it cannot open the run
        worker.stopping.set()
        thread.join(60)
        assert not thread.is_alive()

    attempt(read)
    attempt(lambda: export_runs([run], run.parent / "export"))
    attempt(lambda: query_runs([run], "SELECT * FROM files, texts").close())
    attempt(lambda: plan(run, 1000))
    attempt(lambda: retain(run, 1000))
    for sink in ("local", "tensorboard"):
        attempt(lambda sink=sink: deliver(sink))

    def resume():
        with stepscope.open_run(run, sinks=["local", "tensorboard"], resume=True, delivery="thread") as again:
            again.scalar("loss", 1.0, step=30)
            again.text("long", "y" * 300_000, step=2)
            again.close(1)

    attempt(resume)


def link(run, relative):
    """Puts a link in the place of a part of the run: to the secret, or to its folder."""
    path = run / relative
    is_folder = path.is_dir()
    if is_folder:
        shutil.move(path, run.parent / "moved")
    else:
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(run.parent / ("outside" if is_folder else "outside/secret"))


PLACES = [
    "run.json", "blobs", "store", f"{RANK}/segment_000000.db", f"{RANK}/segment_000001.db", f"{RANK}/delivery.db",
    f"{RANK}/writer.lock", f"{RANK}/delivery.log", f"{RANK}/.compacting.db", "local", "local/scalars.csv", "local/text",
]  # fmt: skip
MORE_PLACES = [
    RANK, f"{RANK}/segment_000000.db-wal", f"{RANK}/segment_000000.db-journal", f"{RANK}/delivery.db-wal",
    "store/compaction.lock", "store/compaction.log", "tensorboard", "local/artifacts.jsonl", "local/run_info.json",
    "local/README.txt", "local/files",
]  # fmt: skip


@pytest.mark.parametrize("relative", [*PLACES, *(pytest.param(place, marks=pytest.mark.slow) for place in MORE_PLACES)])
def test_a_link_in_a_run_leads_nowhere(run, relative):
    link(run, relative)
    use_everything(run)
    assert {path.name: path.read_bytes() for path in (run.parent / "outside").iterdir()} == {"secret": SECRET}
    for folder in (run, run.parent / "export"):
        for path, status in files_below(folder.parent, folder.name):
            if status.st_size < 10**6:
                assert SECRET not in (folder.parent / path).read_bytes(), path


@pytest.mark.parametrize(
    "blob",
    [
        "../../outside/secret",
        "x" * 64,
        7,
        *(pytest.param(blob, marks=pytest.mark.slow) for blob in ("/etc/passwd", "ab", b"\xff" * 64)),
    ],
)
def test_a_blob_names_no_other_file(run, blob):
    with closing(sqlite3.connect(run / RANK / "segment_000000.db")) as segment, segment:
        segment.execute("UPDATE artifact SET blob = ?, data = NULL", (blob,))
    with stepscope.read_run(run) as record, pytest.raises(StepscopeError):
        assert record.texts("long")[0].text
        assert record.files()[0].path
    use_everything(run)
    assert not [path for path, _ in files_below(run, "local/text") if SECRET in (run / path).read_bytes()]


@pytest.mark.parametrize(
    "token",
    [
        {"file": "../../outside/secret"},
        {"offset": -1},
        3,
        *(pytest.param(token, marks=pytest.mark.slow) for token in ({"file": "/etc/hostname"}, [])),
    ],
)
def test_a_token_names_no_other_file(run, token):
    with closing(sqlite3.connect(run / RANK / "delivery.db")) as ledger, ledger:
        (old,) = ledger.execute("SELECT token FROM cursor WHERE sink = 'tensorboard'").fetchone()
        new = json.loads(old) | token if isinstance(token, dict) else token
        if isinstance(token, dict) and "file" in token:
            new["offset"] = 0
            new["file"] = str(run.parent / "outside/secret") if token["file"][0] == "/" else token["file"]
        ledger.execute("UPDATE cursor SET token = ?", (json.dumps(new).encode(),))
    use_everything(run)
    assert (run.parent / "outside/secret").read_bytes() == SECRET


FOREIGN = {
    "a view": "DROP TABLE scalar; CREATE VIEW scalar AS WITH RECURSIVE n(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS seq_group, x AS series, x AS seq, x, x AS step FROM n;",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON scalar BEGIN DELETE FROM series; END;",
    "another table": "CREATE TABLE more(a);",
    "an expression": "CREATE INDEX more ON scalar(abs(value));",
}


@pytest.mark.parametrize("ddl", FOREIGN.values(), ids=FOREIGN)
def test_a_segment_with_other_tables_is_refused_by_a_clear_word(run, ddl):
    with closing(sqlite3.connect(run / RANK / "segment_000000.db")) as segment:
        segment.executescript(ddl)
    with pytest.raises(StepscopeError, match="tables are not those of a run"):
        query_runs([run], "SELECT count(*) FROM scalars", timeout_s=60)
    with pytest.raises(StepscopeError, match="tables are not those of a run"):
        stepscope.open_run(run, sinks=[], resume=True)


def test_a_ledger_with_a_trigger_is_refused(run):
    with closing(sqlite3.connect(run / RANK / "delivery.db")) as ledger:
        ledger.executescript("CREATE TRIGGER t AFTER UPDATE ON cursor BEGIN DELETE FROM cursor; END;")
    with pytest.raises(sqlite3.DatabaseError, match="trigger t"):
        Ledger(rank_folder(run, 0))


@pytest.mark.parametrize(
    "relative", ["run.json", f"{RANK}/segment_000000.db", f"{RANK}/delivery.db", "local/scalars.csv"]
)
def test_a_pipe_holds_nobody_up(run, relative):
    (run / relative).unlink()
    os.mkfifo(run / relative)
    use_everything(run)


def test_a_page_that_is_given_as_a_link_is_kept_as_the_file(tmp_path):
    (tmp_path / "page_0.pkl").write_bytes(b"content")
    (tmp_path / "linked.pkl").symlink_to(tmp_path / "page_0.pkl")
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.page(tmp_path / "linked.pkl", step=0)
    with stepscope.read_run(tmp_path / "run") as record:
        (page,) = record.pages()
    assert not page.path.is_symlink()
    assert hashlib.sha256(page.path.read_bytes()).hexdigest() == page.sha256


def test_a_copy_is_as_private_as_the_file(tmp_path):
    (tmp_path / "private.txt").write_text("mine")
    (tmp_path / "private.txt").chmod(0o600)
    with stepscope.open_run(tmp_path / "run", sinks=["local"], delivery="thread") as run:
        run.file(tmp_path / "private.txt", step=0)
    copies = [path for top in ("blobs", "local/files") for path, _ in files_below(tmp_path / "run", top)]
    assert len(copies) == 2
    assert {(tmp_path / "run" / path).stat().st_mode & 0o777 for path in copies} == {0o600}
