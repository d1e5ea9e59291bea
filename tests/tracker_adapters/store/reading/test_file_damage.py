"""A store whose files were emptied or cut short is called damaged, in the list of runs and by each answer."""

import json
import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from tracker_adapters.store.layout import STORE, rank_folder, segments
from tracker_adapters.store.reading.file_damage import damage_of

import stepscope
from stepscope.viewer.answers.answer import Gone
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList

PATHS = (
    "names",
    "series",
    "alerts",
    "verdict",
    "compare",
    "causes",
    "layers",
    "histograms",
    "images",
    "texts",
    "files",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "exp"
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(3000):
            run.scalar("loss", step, step=step)
    return folder


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "has 0 bytes"), (50, "cut short: it has 50 of"), (-4096, "cut short")],
    ids=["emptied", "no header", "a page less"],
)
def test_each_view_and_the_list_say_that_a_store_was_cut(sound, tmp_path, size, said):
    shutil.copytree(sound, tmp_path / "exp")
    (store,) = segments(rank_folder(tmp_path / "exp", 0))
    os.truncate(store, size if size >= 0 else store.stat().st_size + size)
    runs = RunList([tmp_path])
    (listed,) = json.loads(answer(runs, "runs").body)["runs"]
    assert said in listed["damage"] and store.name in listed["damage"] and "\n" not in listed["damage"]
    key = listed["key"]
    state = json.loads(answer(runs, f"positions?runs={key}").body)[key]
    assert state["status"] == "unreadable" and store.name in state["error"]
    for path in PATHS:
        with pytest.raises(Gone, match=store.name):
            answer(runs, f"{path}?run={key}&name=loss")
    assert store.name in "".join(json.loads(answer(runs, f"run?run={key}").body)["damage"])
    runs.close()


def test_where_one_file_of_several_was_emptied_the_rest_is_shown_and_the_damage_told(sound, tmp_path):
    folder = tmp_path / "exp"
    shutil.copytree(sound, folder)
    (store,) = segments(rank_folder(folder, 0))
    store.with_name("segment_000001.db").touch()
    runs = RunList([folder])
    (listed,) = json.loads(answer(runs, "runs").body)["runs"]
    state = json.loads(answer(runs, f"positions?runs={listed['key']}").body)[listed["key"]]
    assert (state["status"], state["damage"]) == ("finished", listed["damage"])
    assert "segment_000001.db has 0 bytes" in listed["damage"]
    assert answer(runs, f"series?run={listed['key']}&name=loss").body
    assert json.loads(answer(runs, f"verdict?run={listed['key']}").body)["damage"] == [listed["damage"]]
    runs.close()


def test_the_verdict_tells_of_rows_that_could_not_be_read(sound, tmp_path):
    folder = tmp_path / "exp"
    shutil.copytree(sound, folder)
    with closing(sqlite3.connect(segments(rank_folder(folder, 0))[0])) as connection, connection:
        connection.execute("UPDATE scalar SET value = 'no number'")
    runs = RunList([folder])
    found = json.loads(answer(runs, f"verdict?run={runs.all()[0].key}").body)
    assert found["damage"] == ["rows of the store could not be read"]
    runs.close()


def test_nothing_is_said_of_a_sound_run_and_of_one_that_is_written(sound, tmp_path):
    assert damage_of(sound, (0,)).text == ""
    with stepscope.open_run(tmp_path / "live", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        runs = RunList([tmp_path / "live"])
        assert json.loads(answer(runs, "runs").body)["runs"][0]["damage"] == ""
        runs.close()


@pytest.mark.parametrize("place", [STORE, f"{STORE}/rank_00000"])
def test_a_link_in_place_of_a_folder_is_told(sound, tmp_path, place):
    folder = tmp_path / "exp"
    shutil.copytree(sound, folder)
    (folder / place).rename(tmp_path / "elsewhere")
    (folder / place).symlink_to(tmp_path / "elsewhere")
    found = damage_of(folder, ())
    assert found.is_all
    assert found.text == f"{folder / place} is no folder; links are not followed"
    with stepscope.read_run(folder) as record:
        assert record.damage() == [found.text]


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_pipe_or_a_link_in_place_of_a_file_is_left_to_who_reads_it(sound, tmp_path, suffix):
    """Opening a pipe waits for somebody who writes to it: for ever."""
    shutil.copytree(sound, tmp_path / "exp")
    (store,) = segments(rank_folder(tmp_path / "exp", 0))
    place = store.with_name(store.name + suffix)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert not damage_of(tmp_path / "exp", [0]).text
    (listed,) = json.loads(answer(RunList([tmp_path]), "runs").body)["runs"]
    assert listed["name"] == "exp"

    place.unlink()
    place.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    assert not damage_of(tmp_path / "exp", [0]).text
