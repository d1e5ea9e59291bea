"""A segment that nobody writes, read from its file: what SQLite reads of it, or nothing."""

import math
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager

import numpy as np
import pytest
from tracker_adapters.native.extension import kernels
from tracker_adapters.safe_files import folder_of
from tracker_adapters.store.reading import rank_values
from tracker_adapters.store.reading.rank_values import RankValues, read_histogram, read_rank_text
from tracker_adapters.store.segments import ended
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS
from tracker_adapters.store.segments.ended import NotEnded, ended_segment
from tracker_adapters.store.upkeep.compaction import compact

import stepscope

LOSS_SEQS = "SELECT seq FROM scalar JOIN series ON series.id = scalar.series WHERE name = 'loss' ORDER BY seq"
VALUES = [0.5, math.nan, math.inf, -math.inf, -0.0, 1.0, -1.0, 3e9, -(2.0**60), 1e-320, 1.7976931348623157e308]

pytestmark = pytest.mark.skipif(kernels() is None, reason="the compiled code is not used")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of 3,000 steps: groups of 2,048 numbers, trees of several levels, histograms and texts beyond a page."""
    folder = tmp_path_factory.mktemp("made") / "run"
    random = np.random.default_rng(0)
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(3000):
            value = VALUES[step] if step < len(VALUES) else step * 0.25
            run.scalars(("loss", "other"), (value, float(step)), step=step)
            if step % 100 == 0:
                run.histogram("h", random.normal(0, 10.0 ** random.integers(-9, 9), 3000).astype(np.float32), step=step)
                run.text("note", "ä" * 7 * step, step=step)
        run.scalar("large", 1.0, step=2**50)
    return folder


@pytest.fixture
def ended_run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def segment_of(folder):
    return folder / "store" / "rank_00000" / "segment_000000.db"


@contextmanager
def opened(folder):
    with folder_of(folder, "store/rank_00000") as store, ended_segment(store.place("segment_000000.db")) as segment:
        yield segment


def rows_of(folder, statement, *parameters):
    with closing(sqlite3.connect(segment_of(folder))) as connection:
        return connection.execute(statement, parameters).fetchall()


def test_scalars_are_those_that_sqlite_reads(made):
    with opened(made) as segment:
        found = {name: segment.scalars(name) for name in ("loss", "other", "large", "lost")}
    with stepscope.read_run(made) as record:
        for name in ("loss", "other", "large"):
            expected = record.scalars(name)
            assert found[name].steps.tobytes() == expected.steps.tobytes()
            assert found[name].values.tobytes() == expected.values.tobytes()  # the sign of zero, too
            assert set(found[name].attempts.tolist()) == {1}
    assert found["loss"].seqs.tolist() == [seq for (seq,) in rows_of(made, LOSS_SEQS)]
    assert [len(column) for column in found["lost"]] == [0] * 4


def test_histograms_and_texts_are_those_that_sqlite_reads(made):
    with opened(made) as segment:
        histograms = [segment.histogram("h", step) for step in range(0, 3000, 100)]
        text = segment.text("note")
        assert segment.histogram("h", 1) is segment.histogram("lost", 0) is segment.text("lost") is None
    assert histograms == rows_of(made, "SELECT seq, series, attempt, step, time_ns, data FROM histogram ORDER BY seq")
    assert [text] == rows_of(made, f"SELECT {ARTIFACT_COLUMNS} FROM artifact ORDER BY seq DESC LIMIT 1")
    assert len(text[6]) > 8192


def test_several_segments_are_one_series(run_folder, three_segments, monkeypatch):
    def refuse(*args):
        raise AssertionError("SQLite was asked")

    monkeypatch.setattr(rank_values, "opened_segments", refuse)
    with stepscope.read_run(run_folder) as record:
        steps, values = RankValues(record).read(0, "loss")
        assert read_histogram(record, 0, "h", 0) is read_rank_text(record, 0, "note") is None
    assert steps.tolist() == values.tolist() == list(range(6000))


def test_what_a_live_or_killed_writer_left_is_read_by_sqlite(ended_run):
    with stepscope.open_run(ended_run, sinks=[], resume=True) as run:
        run.scalar("loss", 7.0, step=5000)
        run.text("note", "late", step=5000)
        assert run.flush()
        with pytest.raises(NotEnded), opened(ended_run):
            pass
        killed = shutil.copytree(ended_run, ended_run.parent / "killed")
    with pytest.raises(NotEnded), opened(killed):
        pass
    with stepscope.read_run(killed) as record:
        steps, values = RankValues(record).read(0, "loss")
        assert (len(steps), steps[-1], values[-1]) == (3001, 5000, 7.0)
        assert read_rank_text(record, 0, "note") == "late"


@pytest.mark.parametrize("what", ["resumed", "closed again", "a journal"])
def test_a_writer_that_begins_meanwhile_is_noticed(ended_run, what):
    path = segment_of(ended_run)
    with pytest.raises(NotEnded), opened(ended_run) as segment:
        assert len(segment.scalars("loss")[0]) == 3000
        if what == "a journal":
            path.with_name(f"{path.name}-journal").touch()
        else:
            run = stepscope.open_run(ended_run, sinks=[], resume=True)
            run.scalar("loss", 7.0, step=5000)
            assert run.flush()
            if what == "closed again":
                run.close()
    if what == "resumed":
        run.close()


def test_nothing_of_ours_is_locked_when_the_file_is_closed(ended_run, monkeypatch):
    """A writer of this process has its lock on the file: opening and closing the file would give it up."""
    with stepscope.open_run(ended_run, sinks=[], resume=True) as run:
        run.scalar("loss", 7.0, step=5000)
        assert run.flush()
        opened, original = [], os.open
        monkeypatch.setattr(os, "open", lambda name, *a, **k: opened.append(str(name)) or original(name, *a, **k))
        with stepscope.read_run(ended_run) as record:
            RankValues(record).read(0, "loss")
    assert opened
    assert not [name for name in opened if name.endswith(".db")]


@pytest.mark.parametrize("what", ["store", "store/rank_00000", "store/rank_00000/segment_000000.db"])
def test_nothing_is_read_through_a_link(ended_run, what):
    with stepscope.read_run(ended_run) as record:
        (ended_run / what).rename(ended_run.parent / "elsewhere")
        (ended_run / what).symlink_to(ended_run.parent / "elsewhere")
        try:
            assert not len(RankValues(record).read(0, "loss")[0])
        except stepscope.RunError as error:
            assert "a regular file" in str(error)


def test_without_the_compiled_code_sqlite_reads(ended_run, monkeypatch):
    monkeypatch.setattr(ended, "kernels", lambda: None)
    with pytest.raises(NotEnded), opened(ended_run):
        pass


@pytest.mark.parametrize(
    "change",
    [
        "PRAGMA page_size=8192; VACUUM",
        "CREATE VIEW another AS SELECT 1",
        "UPDATE scalar SET value = 'text' WHERE seq = 100",
        "UPDATE scalar SET step = 0.5 WHERE seq = 100",
        "UPDATE scalar SET step = -1 WHERE seq = 100",
        "UPDATE scalar SET step = 7 WHERE seq = 100",
        "INSERT INTO attempt VALUES (2, 1, 1)",
        "UPDATE meta SET value = 'x' WHERE key = 'first_seq'",
    ],
)
def test_what_is_out_of_the_ordinary_is_read_as_before(ended_run, change, monkeypatch):
    with closing(sqlite3.connect(segment_of(ended_run))) as connection:
        connection.executescript(change)
    assert read_in_both_ways(ended_run, monkeypatch) != ("VIEW" in change)  # a view is refused


@pytest.mark.slow
def test_a_damaged_file_is_read_as_sqlite_reads_it(ended_run, monkeypatch):
    """Whatever byte is wrong: the file is read as SQLite reads it, or where SQLite refuses it, as it was written."""
    path, random = segment_of(ended_run), np.random.default_rng(3)
    content = path.read_bytes()
    refused, written = 0, read(ended_run)
    for _ in range(60):
        changed = bytearray(content)
        page = int(random.integers(len(content) // 4096)) * 4096
        changed[page + int(random.integers(4096 if random.random() < 0.5 else 16))] ^= 1 << int(random.integers(8))
        path.write_bytes(changed)
        refused += not read_in_both_ways(ended_run, monkeypatch, written)
    assert refused < 60


def read(folder):
    try:
        with stepscope.read_run(folder) as record:
            steps, values = RankValues(record).read(0, "loss")
            histogram = read_histogram(record, 0, "h", 500)
            return steps.tolist(), values.tobytes(), histogram, read_rank_text(record, 0, "note")
    except stepscope.RunError as error:
        return type(error)


def read_in_both_ways(folder, monkeypatch, written=None):
    """Compares what the file says with what SQLite reads; returns whether SQLite can read it."""
    found = read(folder)
    with monkeypatch.context() as patched:
        patched.setattr(ended, "kernels", lambda: None)
        expected = read(folder)
    assert found == expected or (isinstance(expected, type) and found == written)
    return isinstance(expected, tuple)


@pytest.mark.parametrize("compacts", [False, True])
def test_what_was_recorded_again_counts_as_sqlite_counts_it(run_folder, three_segments, monkeypatch, compacts):
    for attempt in range(2):
        with stepscope.open_run(run_folder, sinks=[], resume=True) as run:
            for step in [*range(100 * attempt, 5000, 7), 20, 10, 6000 + attempt]:
                run.scalar("loss", -float(attempt), step=step)
    if compacts:
        assert compact(run_folder, three_segments[:2], 1, notes_bytes=1000) is not None
    with stepscope.read_run(run_folder) as record:
        found = RankValues(record).read(0, "loss")
        with monkeypatch.context() as patched:
            patched.setattr(ended, "kernels", lambda: None)
            expected = RankValues(record).read(0, "loss")
    assert (found[0] == expected[0]).all()
    assert (found[1] == expected[1]).all()
    assert (len(np.unique(found[0])) < 6000) == compacts
