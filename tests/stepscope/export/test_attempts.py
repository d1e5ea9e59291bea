"""What an export and a query leave out where a run was resumed and recorded steps again."""

import sqlite3

import numpy as np
import pytest
from readback_export import read_table
from tracker_adapters.artifacts import Scalar
from tracker_adapters.store.layout import segments
from tracker_adapters.store.upkeep.compaction import compact
from tracker_adapters.store.writing.run_store import RunStore

import stepscope
from stepscope.export import export_runs
from stepscope.query import query_runs


def test_what_was_recorded_again_after_a_resume_replaces_the_rest(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(10):
            run.scalar("loss", 1.0, step=step)
            run.histogram("h", np.ones(2), step=step)
        run.scalar("once", 1.0, step=2)
        run.alert("slow", "x", step=8)
    for value, first, last in ((2.0, 6, 12), (3.0, 4, 6)):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
            for step in range(first, last):
                run.scalar("loss", value, step=step)
                run.histogram("h", np.full(2, value), step=step)
            run.alert("slow", "x", step=8)

    export_runs([tmp_path / "run"], tmp_path / "out")
    with stepscope.read_run(tmp_path / "run") as record:
        series = record.scalars("loss")
    rows = read_table(tmp_path / "out", "scalars", "csv")
    mine = sorted((row["step"], float(row["value"])) for row in rows if row["name"] == "loss")
    assert mine == list(zip(series.steps.tolist(), series.values.tolist(), strict=True))
    assert [row["attempt"] for row in rows if row["name"] == "once"] == [1]
    histograms = read_table(tmp_path / "out", "histograms", "csv")
    assert sorted((row["step"], row["mean"]) for row in histograms) == mine
    assert len(read_table(tmp_path / "out", "alerts", "csv")) == 3

    everything = export_runs([tmp_path / "run"], tmp_path / "all", all_attempts=True)
    assert everything.rows["scalars"] == 10 + 1 + 6 + 2


def by_step(run, tmp_path):
    """What the run's readers, an export and a query show of ``loss``: steps and values."""
    with stepscope.read_run(run) as record:
        series = record.scalars("loss")
    export_runs([run], tmp_path / "shown", overwrite=True)
    rows = read_table(tmp_path / "shown", "scalars", "csv")
    with query_runs([run], "select step, value from scalars order by step") as answer:
        return [
            list(zip(series.steps.tolist(), series.values.tolist(), strict=True)),
            sorted((row["step"], float(row["value"])) for row in rows),
            list(answer),  # type: ignore[arg-type]
        ]


def test_a_compacted_attempt_replaces_what_it_covered_as_the_readers_have_it(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(5000):
            run.scalar("loss", 1.0, step=step)
    for first, value in ((1000, 2.0), (4500, 3.0)):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
            for step in range(first, first + 3000):
                run.scalar("loss", value, step=step)
        if value == 2.0:
            (segment,) = segments(tmp_path / "run" / "store" / "rank_00000")
            assert compact(tmp_path / "run", [segment], 4, notes_bytes=10**6)
    record, exported, queried = by_step(tmp_path / "run", tmp_path)
    assert 1.0 not in [value for step, value in record if 1016 <= step < 3984]
    assert len(record) < 5000
    assert exported == record
    assert queried == record


def test_what_is_recorded_again_during_an_export_does_not_double_a_step(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    store = RunStore(tmp_path / "run", resume=True, segment_bytes=1)
    for step in range(20):
        store.put(Scalar(name="loss", step=step, value=1.0), 100)
        if step % 5 == 0:
            assert store.flush(60)
    assert store.close(60)
    with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
        run.scalar("loss", 2.0, step=10)
        assert run.flush_store(60)

        def meanwhile(number, rows):
            run.scalar("loss", 2.0, step=11)
            assert run.flush_store(60)

        export_runs([tmp_path / "run"], tmp_path / "out", progress=meanwhile)
        expected = [(step, 2.0 if step == 10 else 1.0) for step in range(20)]
        rows = read_table(tmp_path / "out", "scalars", "csv")
        assert sorted((row["step"], float(row["value"])) for row in rows) == expected


@pytest.mark.slow
def test_many_lists_of_steps_are_looked_through_once(tmp_path):
    names = [f"name{number}" for number in range(500)]
    for first, value in ((0, 1.0), (100, 2.0)):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=first > 0) as run:
            for step in range(first, first + 200):
                run.scalars(names, [value] * len(names), step=step)
    read = 0

    def note(statement):
        nonlocal read
        read += "FROM scalar" in statement

    connect = sqlite3.connect
    with pytest.MonkeyPatch.context() as patch:

        def traced(*arguments, **options):
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(note)
            return connection

        patch.setattr(sqlite3, "connect", traced)
        exported = export_runs([tmp_path / "run"], tmp_path / "out", format="jsonl")
    assert exported.rows["scalars"] == 300 * len(names)
    assert read < 100  # and not one for each name
