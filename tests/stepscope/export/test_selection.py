"""What an export chooses, refuses and leaves behind."""

import contextlib
import hashlib
import json
import os
import sqlite3
import tracemalloc

import numpy as np
import pytest
from readback_export import read_table
from tracker_adapters.artifacts import Scalar
from tracker_adapters.errors import NotARunError, RunError
from tracker_adapters.store.layout import blob_path, segments
from tracker_adapters.store.upkeep.compaction import compact
from tracker_adapters.store.writing.run_store import RunStore

import stepscope
from stepscope.export import ExportError, export_runs, tables
from stepscope.query import query_runs


@pytest.fixture
def run_folder(tmp_path):
    (tmp_path / "report.html").write_bytes(b"<p>hello")
    with stepscope.open_run(tmp_path / "runs" / "one", sinks=[]) as run:
        for step in range(63):
            run.scalar("loss", step / 7, step=step)
        run.image("input", np.arange(12, dtype=np.uint8).reshape(3, 4), step=1, layout="HW")
        run.image("large", np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8), step=1, layout="HWC")
        run.text("notes", "x", step=2)
        run.file(tmp_path / "report.html", media_type="text/html", step=6)
    return tmp_path / "runs" / "one"


def test_names_kinds_ranks_and_steps_choose_rows(tmp_path):
    for rank in range(2):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            for step in range(10):
                run.scalars(["grad/a", "grad/b", "weights[0]", "weights0"], [step] * 4, step=step)
                run.text("grad/a", "x", step=step)

    def exported(**selection):
        export_runs([tmp_path / "run"], tmp_path / "out", overwrite=True, **selection)
        rows = read_table(tmp_path / "out", "scalars", "csv")
        return [(row["rank"], row["name"], row["step"]) for row in rows]

    assert exported(names=["grad/*"], steps="3:4", ranks=[1]) == [
        (1, "grad/a", 3), (1, "grad/b", 3), (1, "grad/a", 4), (1, "grad/b", 4)
    ]  # fmt: skip
    assert exported(names="weights[0]", steps="9:") == [
        (0, "weights[0]", 9), (0, "weights0", 9), (1, "weights[0]", 9), (1, "weights0", 9)
    ]  # fmt: skip
    assert exported(names=["grad/b"], steps=(None, 0), kinds=["scalars"]) == [(0, "grad/b", 0), (1, "grad/b", 0)]
    assert not (tmp_path / "out" / "texts.csv").exists()


@pytest.mark.slow
def test_a_table_of_many_small_cells_takes_little_memory(tmp_path, monkeypatch):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.table("cells", ["a", "b"], [[1, 2]] * 20_000, step=0)
    monkeypatch.setattr(tables, "CHUNK_BYTES", 2**20)
    tracemalloc.start()
    exported = export_runs([tmp_path / "run"], tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert exported.rows["tables"] == 40_000
    assert peak < 12 * 1024 * 1024


def test_a_folder_whose_name_is_no_utf_8_is_exported_and_asked(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    with stepscope.open_run(folder, sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    for file_format in ("csv", "parquet", "jsonl"):
        export_runs([folder], tmp_path / file_format, format=file_format)  # type: ignore[arg-type]
        assert [row["run"] for row in read_table(tmp_path / file_format, "scalars", file_format)] == ["caf\ufffd"]
    with query_runs([folder], "select run from scalars") as rows:
        assert list(rows) == [("caf\ufffd",)]


def test_many_runs_lie_in_one_table(tmp_path):
    for place in ("a/seed1", "a/seed2", "b/seed1"):
        with stepscope.open_run(tmp_path / "runs" / place, sinks=[]) as run:
            run.scalar("loss", 1.0, step=0)

    def labels(*runs):
        export_runs([tmp_path / run for run in runs], tmp_path / "out", overwrite=True)
        return [row["run"] for row in read_table(tmp_path / "out", "scalars", "csv")]

    assert labels("runs") == ["a/seed1", "a/seed2", "b/seed1"]
    assert labels("runs/a", "runs/a/seed1") == ["seed1", "seed2"]
    assert labels("runs/*/seed1") == ["a/seed1", "b/seed1"]


def test_a_run_that_is_written_meanwhile_is_exported_as_far_as_it_is_stored(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        assert run.flush_store(60)
        exported = export_runs([tmp_path / "run"], tmp_path / "out")
        run.scalar("loss", 1.0, step=1)
    assert exported.rows == {"runs": 1, "scalars": 1}
    assert read_table(tmp_path / "out", "runs", "csv")[0]["status"] == "running"


def test_content_that_is_missing_in_the_run_is_counted(run_folder, tmp_path):
    with stepscope.read_run(run_folder) as record:
        (file,) = record.files()
        file.path.unlink()
        large = record.images("large")[0]
    blob_path(run_folder, hashlib.sha256(large.png).hexdigest()).unlink()

    exported = export_runs([run_folder], tmp_path / "out", format="jsonl")
    assert exported.missing == 2
    assert [row["file"] for row in read_table(tmp_path / "out", "files", "jsonl")] == [None]
    assert [row["name"] for row in read_table(tmp_path / "out", "images", "jsonl")] == ["input"]


def test_a_run_that_somebody_made_up_leads_to_no_file_outside_of_it(run_folder, tmp_path):
    (tmp_path / "secret").write_text("zanzibar")
    out_of_it = "../../secret"
    assert (run_folder / "blobs" / out_of_it[:2] / out_of_it).resolve() == tmp_path / "secret"
    (segment,) = segments(run_folder / "store" / "rank_00000")
    with contextlib.closing(sqlite3.connect(segment)) as connection, connection:
        connection.execute(
            "UPDATE artifact SET blob = ?, data = NULL WHERE blob IS NOT NULL OR meta = '{}'", (out_of_it,)
        )

    exported = export_runs([run_folder], tmp_path / "out")
    assert (exported.missing, exported.damaged) == (0, 3)
    assert not any(b"zanzibar" in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    for sql in ("select text from texts", f"select content(0, null, '{out_of_it}')"):
        with query_runs([run_folder], sql) as rows:
            assert [value for (value,) in rows] == [None]


def test_an_artifact_that_is_damaged_is_left_out_and_counted(run_folder, tmp_path):
    (segment,) = segments(run_folder / "store" / "rank_00000")
    with contextlib.closing(sqlite3.connect(segment)) as connection, connection:
        connection.execute("UPDATE artifact SET meta = '{' WHERE series = (SELECT id FROM series WHERE name = 'input')")
    whole = export_runs([run_folder], tmp_path / "out", overwrite=True).rows | {"images": 1}
    exported = export_runs([run_folder], tmp_path / "out", overwrite=True)
    assert (exported.damaged, exported.rows) == (1, whole)


@pytest.mark.parametrize(
    "damage", ["value = 'abc'", "attempt = 'x,y'", "time_ns = 1.5", "series = 99", "series = 'x'"]
)  # fmt: skip
def test_a_scalar_that_is_none_is_left_out_and_counted(run_folder, tmp_path, damage):
    whole = export_runs([run_folder], tmp_path / "out").rows
    (segment,) = segments(run_folder / "store" / "rank_00000")
    with contextlib.closing(sqlite3.connect(segment)) as connection, connection:
        changed = connection.execute(f"UPDATE scalar SET {damage} WHERE step = 3").rowcount
    exported = export_runs([run_folder], tmp_path / "out", overwrite=True)
    assert exported.damaged == changed
    assert exported.rows == whole | {"scalars": whole["scalars"] - changed}


def test_a_damaged_store_is_one_error_and_leaves_nothing(run_folder, tmp_path):
    segment = next((run_folder / "store" / "rank_00000").glob("segment_*.db"))
    content = bytearray(segment.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    segment.write_bytes(content)
    with pytest.raises(RunError, match=r"segment_000000\.db"):
        export_runs([run_folder], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


@pytest.mark.slow
def test_damage_in_the_middle_of_a_store_costs_the_groups_that_it_hits(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(300):
            run.scalars([f"name{number}" for number in range(100)], np.zeros(100), step=step)
    (segment,) = (tmp_path / "run" / "store" / "rank_00000").glob("segment_*.db")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 65536] = b"\xff" * 65536
    segment.write_bytes(content)
    exported = export_runs([tmp_path / "run"], tmp_path / "out")
    assert 10_000 < exported.rows["scalars"] < 30_000
    assert exported.damaged >= 30_000 - exported.rows["scalars"]
    with (
        pytest.raises(RunError, match=rf"cannot read {segment}: .*malformed"),
        query_runs([tmp_path / "run"], "select * from scalars") as rows,
    ):
        list(rows)
    with stepscope.read_run(tmp_path / "run") as record:
        found = sum(len(record.scalars(f"name{number}")) for number in range(100))
        assert 10_000 < found < 30_000
        assert record.damaged


def test_a_run_whose_segments_are_compacted_meanwhile_loses_and_doubles_nothing(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    store = RunStore(tmp_path / "run", resume=True, segment_bytes=1)
    for step in range(6):
        store.put(Scalar(name="loss", step=step, value=float(step)), 100)
        assert store.flush(60)
    assert store.close(60)
    folder = tmp_path / "run" / "store" / "rank_00000"
    compacted = []

    def between(run, rows):
        if rows == 3:
            left = [path for path in segments(folder) if path not in compacted][2:4]
            compacted.append(compact(tmp_path / "run", left, 0, notes_bytes=10**6))

    export_runs([tmp_path / "run"], tmp_path / "out", progress=between)
    assert compacted
    assert [float(row["value"]) for row in read_table(tmp_path / "out", "scalars", "csv")] == [0, 1, 2, 3, 4, 5]
    with query_runs([tmp_path / "run"], "select value from scalars order by step") as rows:
        assert [value for (value,) in rows] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "format is 'xml'; expected csv, parquet or jsonl"),
        ({"kinds": ["scalr"]}, "kinds hold 'scalr'; expected some of scalar"),
        ({"names": [""]}, "names hold ''"),
        ({"ranks": ["0"]}, "ranks are"),
        ({"ranks": [-1]}, "ranks are"),
        ({"steps": "5"}, "nothing of these"),
        ({"steps": "9:5"}, "steps are '9:5'; expected FIRST:LAST"),
        ({"steps": "a:"}, "steps are 'a:'"),
        ({"steps": (0, 2**63)}, "steps are"),
        ({"names": ["lss", "x*"]}, "no name in 1 runs matches 'lss' or 'x\\*'"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_is_written(tmp_path, arguments, message):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    with pytest.raises(ExportError, match=message):
        export_runs([tmp_path / "run"], tmp_path / "out", **arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_place_without_a_run_is_named(tmp_path):
    with pytest.raises(NotARunError, match=r"missing is not a folder"):
        export_runs([tmp_path / "missing"], tmp_path / "out")
    with pytest.raises(NotARunError, match="contains no run"):
        export_runs([tmp_path], tmp_path / "out")


def test_only_an_export_is_overwritten(run_folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ExportError):
            export_runs([run_folder], tmp_path / "mine", overwrite=overwrite)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"

    (tmp_path / "empty").mkdir()
    export_runs([run_folder], tmp_path / "empty")
    with pytest.raises(ExportError, match="is not empty"):
        export_runs([run_folder], tmp_path / "empty")
    export_runs([run_folder], tmp_path / "empty", overwrite=True, kinds=["text"])
    assert not (tmp_path / "empty" / "scalars.csv").exists()
    with pytest.raises(ExportError, match="is a file"):
        export_runs([run_folder], tmp_path / "report.html")


def test_an_export_that_fails_leaves_the_old_one(run_folder, tmp_path):
    export_runs([run_folder], tmp_path / "out")

    def stop(run, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_runs([run_folder], tmp_path / "out", overwrite=True, progress=stop)
    assert json.loads((tmp_path / "out" / "export.json").read_text())["tables"]["scalars"]["rows"] == 63
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "report.html", "runs"]
