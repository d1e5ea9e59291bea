"""MLflow's own SQLite database: made as a whole by whoever comes first, and never left half way."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import pytest
from mlflow import MlflowClient
from mlflow_delivery import deliver, scalars, the_run, with_database
from tracker_adapters.errors import SinkError, SinkUnavailable
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.sinks.mlflow.database import SETTLED_S, prepare_database
from tracker_adapters.sinks.mlflow.sqlite_uri import sqlite_uri
from waiting import until

PREPARE = """
import sys
from pathlib import Path
from tracker_adapters.sinks.mlflow.database import prepare_database
prepare_database(Path(sys.argv[1]))
"""
MADE_IN_PLACE = "import mlflow, sys; mlflow.MlflowClient(tracking_uri=sys.argv[1]).search_experiments()"
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n" + PREPARE
ODD_FOLDERS = [
    'it\'s "50%?x#y" in a%41b',
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("50%?x", "a%41b", "a#b", "Läufe und Versuche", 'it\'s "quoted"')
    ),
]


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def execute(path, statement):
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement).fetchall()


def half_made(path):
    """Makes what MLflow leaves when it is killed while it makes a database: a schema between two versions."""
    process = start(MADE_IN_PLACE, f"sqlite:///{path}")
    until(lambda: path.exists() and path.stat().st_size > 200_000, every_s=0.001)
    process.kill()
    process.communicate()
    return path


def age(path):
    """Makes a database look as if it had not been written for a while."""
    for one in path.parent.glob(f"{path.name}*"):
        os.utime(one, (past := time.time() - 2 * SETTLED_S, past))


def assert_usable(path):
    assert execute(path, "pragma integrity_check") == [("ok",)]
    assert [one.name for one in MlflowClient(tracking_uri=sqlite_uri(path)).search_experiments()] == ["Default"]


@pytest.mark.slow
def test_a_kill_while_it_is_made_leaves_nothing_at_its_place(tmp_path):
    chance, path = random.Random(0), tmp_path / "mlflow.db"
    for _ in range(3):
        wanted = chance.randrange(4096, 500_000)
        process = start(PREPARE, path)
        until(lambda size=wanted: any(db.stat().st_size >= size for db in tmp_path.glob(".mlflow.db.*/mlflow.db")))
        process.kill()
        process.communicate()
        assert not path.exists()
    prepare_database(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mlflow.db"]
    assert_usable(path)


@pytest.mark.slow
def test_a_full_disk_while_it_is_made_is_no_failure_of_an_artifact_and_leaves_nothing(tmp_path):
    path = tmp_path / "mlflow.db"
    process = start(LIMITED, path)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"SinkUnavailable: cannot create the tracking database {path}" in errors
    assert list(tmp_path.iterdir()) == []
    prepare_database(path)
    assert_usable(path)


@pytest.mark.slow
def test_of_four_that_begin_at_once_one_makes_it(tmp_path):
    path = tmp_path / "mlflow.db"
    processes = [start(PREPARE, path) for _ in range(4)]
    for process in processes:
        process.communicate(timeout=240)
    assert [process.returncode for process in processes] == [0] * 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["mlflow.db"]
    assert_usable(path)


@pytest.mark.slow
def test_one_that_mlflow_itself_is_making_is_waited_for(tmp_path):
    path, waits = tmp_path / "mlflow.db", []
    other = start(MADE_IN_PLACE, f"sqlite:///{path}")
    until(path.exists, every_s=0.001)
    prepare_database(path, lambda: waits.append(1))
    assert waits
    assert other.communicate(timeout=120)[0] == ""
    assert other.returncode == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["mlflow.db"]
    assert_usable(path)


class Migrated(sqlite3.Connection):
    """A connection during which another one tries to drop a table, as MLflow's migrations do."""

    def execute(self, statement, *parameters):
        if statement.startswith("select 1"):
            _, _, path = super().execute("pragma database_list").fetchone()
            with closing(sqlite3.connect(path, timeout=0)) as other, suppress(sqlite3.OperationalError):
                other.execute("drop table _alembic_tmp_tags")
        return super().execute(statement, *parameters)


def test_one_is_looked_at_as_of_one_moment_while_a_migration_drops_tables(tmp_path, monkeypatch):
    path = tmp_path / "mlflow.db"
    for table in ("alembic_version (version_num)", "experiments (a)", "_alembic_tmp_tags (a)"):
        execute(path, f"create table {table}")
    age(path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **({"factory": Migrated} | k)))

    prepare_database(path)

    assert (tmp_path / "mlflow.db.unfinished-1").exists()
    monkeypatch.undo()
    assert_usable(path)


@pytest.mark.slow
def test_one_that_a_killed_mlflow_left_half_made_is_set_aside(tmp_path):
    path = half_made(tmp_path / "mlflow.db")
    age(path)
    options = MLflowSink.resolve({}, tmp_path / "exp1")
    deliver(options, scalars("loss", [1, 2]))
    assert the_run(options).data.metrics == {"loss": 0.25}
    assert (tmp_path / "mlflow.db.unfinished-1").exists()
    assert execute(path, "pragma integrity_check") == [("ok",)]


def test_one_in_which_something_was_recorded_is_never_set_aside(tmp_path):
    options = with_database(MLflowSink.resolve({}, tmp_path / "exp1"))
    path = tmp_path / "mlflow.db"
    execute(path, "update alembic_version set version_num = 'bd07f7e963c5'")  # of MLflow 1.16
    age(path)
    before = path.read_bytes()
    with pytest.raises(SinkError, match=r"schema bd07f7e963c5, and MLflow .* needs .*: stop .* mlflow db upgrade "):
        deliver(options, scalars("loss", [1]))
    assert path.read_bytes() == before
    execute(path, "update alembic_version set version_num = 'fedcba987654'")
    with pytest.raises(SinkError, match="it is of a newer MLflow"):
        deliver(options, scalars("loss", [1]))
    assert [entry.name for entry in tmp_path.iterdir()] == ["mlflow.db"]


def test_what_is_no_database_is_told_and_left_as_it_is(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"these are notes of mine" * 1000)
    with pytest.raises(SinkError, match=r"cannot read the tracking database .*not a database"):
        prepare_database(path)
    assert path.read_bytes().startswith(b"these are notes")


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((SinkUnavailable, OSError)):
        prepare_database(tmp_path / "file" / "mlflow.db")


@pytest.mark.parametrize("folder", ODD_FOLDERS)
def test_the_database_lies_beside_the_run_whatever_the_folder_is_called(tmp_path, folder):
    options = MLflowSink.resolve({}, tmp_path / folder / "exp1")
    (tmp_path / folder).mkdir()
    shutil.copyfile(_empty(tmp_path), tmp_path / folder / "mlflow.db")
    deliver(options, scalars("loss", [1, 2]))
    assert the_run(options).data.metrics == {"loss": 0.25}
    assert execute(tmp_path / folder / "mlflow.db", "select count(*) from metrics") == [(2,)]
    assert {entry.name for entry in tmp_path.iterdir()} == {folder, "ready"}


def _empty(folder):
    with_database({"target": f"sqlite:///{folder / 'ready' / 'mlflow.db'}"})
    return folder / "ready" / "mlflow.db"
