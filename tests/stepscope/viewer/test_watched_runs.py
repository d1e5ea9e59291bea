"""The runs that a viewer looks at: found, opened on demand, and gone."""

import os
import shutil
import sys
import threading
import time

import pytest
from tracker_adapters.errors import NotARunError, RunError
from tracker_adapters.remote.opening import upload_existing
from tracker_adapters.remote.upload import upload
from waiting import in_threads

import stepscope
from stepscope.viewer import watched_run, watched_runs
from stepscope.viewer.watched_runs import RunList, UnknownRunError


def make(folder, value=1.0):
    with stepscope.open_run(folder, sinks=[]) as run:
        run.scalar("loss", value, step=0)
    return folder


@pytest.fixture
def watched(monkeypatch):
    """Makes lists of runs that look again whenever they are asked, and closes them."""
    monkeypatch.setattr(watched_runs, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(watched_runs, "LOOK_SHARE", 0)
    made = []

    def watch(*given, **options):
        made.append(RunList([str(one) for one in given], **options))
        return made[-1]

    yield watch
    for one in made:
        one.close()


_OPENED = []
"""The databases that were opened while a test counts them; an audit hook cannot be removed."""


def _note(event, arguments):
    if event == "sqlite3.connect":
        _OPENED.append(str(arguments[0]))


@pytest.fixture(scope="module")
def _hook():
    sys.addaudithook(_note)


@pytest.fixture
def databases(_hook):
    """The databases that are opened; what is in it before can be cleared."""
    _OPENED.clear()
    return _OPENED


def test_runs_and_folders_of_runs_are_found_and_named_by_keys_that_stay(tmp_path, watched, monkeypatch):
    make(tmp_path / "a" / "deep" / "exp1")
    make(tmp_path / "a" / "exp2")
    make(tmp_path / "b")
    runs = watched(tmp_path / "a", tmp_path / "b", tmp_path / "a" / "exp2")
    assert [run.folder for run in runs.all()] == [
        tmp_path / "a" / "deep" / "exp1",
        tmp_path / "a" / "exp2",
        tmp_path / "b",
    ]
    monkeypatch.chdir(tmp_path)
    again = watched("./b", (tmp_path / "a" / "exp2").as_uri(), "a/de*")
    assert {run.key for run in again.all()} == {run.key for run in runs.all()}
    assert all(run.key.isalnum() and len(run.key) < 12 for run in runs.all())


def test_runs_that_were_given_one_by_one_are_told_from_those_in_folders(tmp_path, watched):
    for name in ("a/exp1", "a/exp2", "b"):
        make(tmp_path / name)
    names = {run.key: run.folder.name for run in watched(tmp_path).all()}

    def named(*given):
        return [names[key] for key in watched(*given).named()]

    assert named(tmp_path / "b", tmp_path / "a", tmp_path / "a" / "exp1") == ["b", "exp1"]
    assert named(tmp_path / "a" / "exp*", (tmp_path / "b").as_uri()) == ["exp1", "exp2", "b"]
    assert named(tmp_path / "a") == []


def test_files_between_runs_are_passed_over_and_a_file_alone_is_an_error(tmp_path, watched):
    make(tmp_path / "exp1")
    (tmp_path / "mlflow.db").write_bytes(b"")
    places = sorted(tmp_path.iterdir())  # what a shell makes of *
    assert [run.folder.name for run in watched(*places).all()] == ["exp1"]
    with pytest.raises(NotARunError, match=r"mlflow\.db is not a folder"):
        watched(tmp_path / "mlflow.db")


def test_a_run_that_comes_is_found_and_one_that_goes_is_not_listed_but_known(tmp_path, watched):
    runs = watched(tmp_path)
    assert runs.all() == []
    make(tmp_path / "new")
    runs.look_again()
    (run,) = runs.all()
    with runs.opened(run.key) as record:
        assert record.scalars("loss").values.tolist() == [1.0]
    shutil.rmtree(tmp_path / "new")
    runs.look_again()
    assert runs.all() == []
    with pytest.raises(NotARunError, match="is not a folder"), runs.opened(run.key):
        pass
    with pytest.raises(RunError):
        runs.position(run.key)


def test_another_run_at_its_place_is_read_in_its_stead(tmp_path, watched):
    make(tmp_path / "run", 1.0)
    runs = watched(tmp_path / "run")
    (run,) = runs.all()
    with runs.opened(run.key) as record:
        assert runs.series.read(run.key, record, "loss", 0).values.tolist() == [1.0]
    before = runs.position(run.key)
    shutil.rmtree(tmp_path / "run")
    make(tmp_path / "run", 2.0)
    with runs.opened(run.key) as record:
        assert runs.series.read(run.key, record, "loss", 0).values.tolist() == [2.0]
    with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as resumed:
        resumed.scalar("loss", 3.0, step=1)
    assert runs.position(run.key) != before


def test_the_position_changes_with_each_commit_and_with_the_status(tmp_path, watched):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        runs = watched(tmp_path)
        (found,) = runs.all()
        positions = [runs.position(found.key), runs.position(found.key)]
        run.scalar("loss", 1.0, step=0)
        assert run.flush(60)
        positions.append(runs.position(found.key))
        assert found.head().live
    positions.append(runs.position(found.key))
    assert positions[0] == positions[1]
    assert len(set(positions)) == 3
    assert positions[-1].endswith("finished")
    assert not found.head().live


def test_no_more_records_stay_open_than_allowed(tmp_path, watched):
    for number in range(6):
        make(tmp_path / str(number), float(number))
    runs = watched(tmp_path, max_open=2)
    for _ in range(2):
        for number, run in enumerate(runs.all()):
            with runs.opened(run.key) as record:
                assert record.scalars("loss").values.tolist() == [number]
            assert len(runs._opened) <= 3


def test_threads_take_turns_with_a_run_and_go_side_by_side_with_several(tmp_path, watched):
    make(tmp_path / "a")
    make(tmp_path / "b")
    runs = watched(tmp_path, max_open=1)
    inside, most = threading.Semaphore(0), []

    def read(key):
        for _ in range(10):
            with runs.opened(key) as record:
                inside.release()
                assert record.scalars("loss").values.tolist() == [1.0]
                assert runs.position(key)
        most.append(key)

    in_threads(read, [run.key for run in runs.all()] * 3)
    assert len(most) == 6


def test_what_is_not_there_is_one_clear_error(tmp_path):
    make(tmp_path / "exp1")
    with pytest.raises(RunError, match=r"exp2 is not a folder \(nearest: .*exp1\)"):
        RunList([str(tmp_path / "exp2")])
    runs = RunList([str(tmp_path)])
    with pytest.raises(UnknownRunError, match=r"no run has the key '\.\./\.\.'"):
        runs.run("../..")


def test_links_out_of_a_folder_are_not_followed(tmp_path, watched):
    make(tmp_path / "outside" / "secret")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert watched(tmp_path / "runs").all() == []


def test_runs_at_a_url_are_found_and_read(tmp_path, watched, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    make(tmp_path / "one", 4.0)
    upload_existing(tmp_path / "one", "memory://shared/exp/one")
    assert upload(tmp_path / "one", stopping=threading.Event(), give_up_s=60, wait_s=60) == "done"
    monkeypatch.setattr(watched_run, "REMOTE_LOOK_S", 0.0)
    runs = watched("memory://shared/exp")
    (run,) = runs.all()
    assert (run.shown, run.head().manifest.info.name, run.head().ranks) == ("memory://shared/exp/one", "one", (0,))
    with runs.opened(run.key) as record:
        assert record.scalars("loss").values.tolist() == [4.0]
    assert runs.position(run.key) == runs.position(run.key)
    assert [one.key for one in watched("memory://shared/exp/one").all()] == [run.key]
    with pytest.raises(RunError, match="there is nothing at memory://nothing"):
        watched("memory://nothing/here")


def aged(run):
    """Lets the files of a run's store be written a minute ago."""
    for file in (run / "store").rglob("segment*"):
        os.utime(file, (time.time() - 60,) * 2)


def test_how_far_runs_that_ended_are_opens_no_database_until_their_files_change(tmp_path, watched, databases):
    places = [make(tmp_path / str(number)) for number in range(4)]
    runs = watched(tmp_path, max_open=2)
    keys = [run.key for run in runs.all()]
    for place in places:
        aged(place)
    before = [runs.position(key) for key in keys]
    databases.clear()
    assert [runs.position(key) for key in keys] == before
    assert databases == []
    with stepscope.open_run(places[0], sinks=[], resume=True) as run:
        run.scalar("loss", 2.0, step=1)
        run.flush_store()
        assert runs.position(keys[0]) != before[0]
    ended = runs.position(keys[0])
    aged(places[0])
    with runs.opened(keys[0]) as record:
        assert record.scalars("loss").steps.tolist() == [0, 1]
    assert [runs.position(key) for key in keys] == [ended, *before[1:]]
    shutil.rmtree(places[1])
    with pytest.raises(RunError):
        runs.position(keys[1])
    make(places[1], 3.0)
    aged(places[1])
    assert runs.position(keys[1])


def test_of_files_that_were_just_written_how_far_a_run_is_is_always_read(tmp_path, watched, databases):
    make(tmp_path / "run")
    runs = watched(tmp_path)
    (run,) = runs.all()
    runs.position(run.key)
    runs.close()
    databases.clear()
    runs.position(run.key)
    assert databases
