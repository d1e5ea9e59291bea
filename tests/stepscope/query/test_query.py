"""``query_runs``: read-only SQL over runs."""

import hashlib
import io
import json
import re
import sqlite3

import numpy as np
import pytest
from tracker_adapters.artifacts import KINDS, Scalar
from tracker_adapters.errors import NotARunError
from tracker_adapters.store.writing.run_store import RunStore

import stepscope
from stepscope.commands.query_command import command
from stepscope.export import ExportError
from stepscope.query import QueryError, query_runs
from stepscope.query.output import write_json_lines


def answer(runs, sql, **options):
    with query_runs(runs if isinstance(runs, list) else [runs], sql, **options) as result:
        return list(result)


@pytest.fixture
def run_folder(tmp_path):
    (tmp_path / "report.html").write_bytes(b"<p>hello")
    with stepscope.open_run(tmp_path / "run", sinks=[], name="digits", config={"lr": 0.1}, tags=["a"]) as run:
        for step in range(10):
            run.scalar("loss", step / 7, step=step)
            run.histogram("grad", np.arange(step + 1), step=step)
        run.scalar("odd", float("nan"), step=0)
        run.scalar("odd", float("-inf"), step=1)
        run.histogram("grad", np.array([float("nan"), 1.0]), step=11)
        run.image("input", np.zeros((3, 4), np.uint8), step=1, layout="HW")
        run.image("large", np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8), step=1, layout="HWC")
        run.text("notes", "two\nlines, ünïcode", step=2)
        run.text("long", "x" * 300_000, step=2)
        run.alert("slow", "fc1", step=4, level="error")
        run.table("cells", ["a", "b"], [[1, "x"], [float("nan"), None]], step=5)
        run.file(tmp_path / "report.html", media_type="text/html", step=6)
    return tmp_path / "run"


def test_the_help_lists_every_table():
    listed = set(re.findall(r"\b[a-z]+s\b", (command.help or "").partition("run, rank")[0]))
    assert {f"{kind}s" for kind in KINDS} <= listed


def test_scalars_are_a_table(run_folder):
    with stepscope.read_run(run_folder) as record:
        series = record.scalars("loss")
    rows = answer(run_folder, "select run, rank, attempt, step, time_ns, value from scalars where name = 'loss'")
    assert rows == [
        ("run", 0, 1, step, time_ns, value)
        for step, time_ns, value in zip(
            series.steps.tolist(), series.times_ns.tolist(), series.values.tolist(), strict=True
        )
    ]
    assert answer(run_folder, "select value from scalars where name = 'odd' order by step") == [
        (None,),
        (float("-inf"),),
    ]


def test_histograms_have_their_statistics_and_functions(run_folder):
    with stepscope.read_run(run_folder) as record:
        expected = record.histograms("grad")
    rows = answer(
        run_folder,
        "select count, nan, min, max, mean, std, percentile(data, 50), histogram_edges(data), histogram_counts(data) "
        "from histograms order by step",
    )
    for row, histogram in zip(rows, expected, strict=True):
        assert row[:6] == tuple(getattr(histogram, key) for key in ("count", "nan", "min", "max", "mean", "std"))
        assert row[6] == histogram.percentile(50)[0]
        edges, counts = histogram.edges()
        assert (json.loads(row[7]), json.loads(row[8])) == (edges.tolist(), counts.tolist())


def test_other_kinds_have_tables_of_their_own(run_folder):
    with stepscope.read_run(run_folder) as record:
        pngs = {name: record.images(name)[0].png for name in ("input", "large")}
    rows = answer(run_folder, "select name, width, height, png from images order by name")
    assert rows == [("input", 4, 3, pngs["input"]), ("large", 400, 400, pngs["large"])]
    assert answer(run_folder, "select text from texts where name = 'notes'") == [("two\nlines, ünïcode",)]
    assert answer(run_folder, "select length(text) from texts where name = 'long'") == [(300_000,)]
    assert answer(run_folder, "select name, level, message, step from alerts") == [("slow", "error", "fc1", 4)]
    ((columns, rows_of_table),) = answer(run_folder, "select columns, rows from tables")
    assert (json.loads(columns), json.loads(rows_of_table)) == (["a", "b"], [[1, "x"], ["nan", None]])
    ((filename, size, sha256, file, media_type),) = answer(
        run_folder, "select filename, size, sha256, file, media_type from files"
    )
    assert (filename, size, media_type) == ("report.html", 8, "text/html")
    assert hashlib.sha256((run_folder / file).read_bytes()).hexdigest() == sha256


def test_series_attempts_and_runs_say_what_there_is(run_folder):
    assert answer(run_folder, "select kind, count, last_step, last_value from series where name = 'loss'") == [
        ("scalar", 10, 9, 9 / 7)
    ]
    assert answer(run_folder, "select run, rank, attempt from attempts") == [("run", 0, 1)]
    assert answer(run_folder, "select run, title, status, tags, config ->> 'lr' from runs") == [
        ("run", "digits", "finished", '["a"]', 0.1)
    ]
    assert answer(run_folder, "select iso(1500000000123456789)") == [("2017-07-14T02:40:00.123456789Z",)]


def test_several_runs_and_ranks_are_asked_at_once(tmp_path):
    for seed in range(3):
        for rank in range(2):
            with stepscope.open_run(tmp_path / "runs" / f"seed{seed}", sinks=[], rank=rank) as run:
                run.scalar("loss", seed + rank / 2, step=0)
    sql = "select run, avg(value) from scalars group by run order by run"
    assert answer(tmp_path / "runs", sql) == [("seed0", 0.25), ("seed1", 1.25), ("seed2", 2.25)]
    assert answer(tmp_path / "runs", sql, ranks=[1])[0] == ("seed0", 0.5)


def test_a_run_of_more_segments_than_sqlite_attaches_is_one_table(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    store = RunStore(tmp_path / "run", resume=True, segment_bytes=1)
    for step in range(30):
        store.put(Scalar(name=f"name{step % 2}", step=step, value=float(step)), 100)
        assert store.flush(60)
    assert store.close(60)
    assert len(list((tmp_path / "run" / "store" / "rank_00000").glob("segment_*.db"))) > 25

    sql = "select count(*), sum(value), min(step), max(step) from scalars"
    assert answer(tmp_path / "run", sql) == [(30, 435.0, 0, 29)]
    assert answer(tmp_path / "run", sql, names=["name1"], steps="10:20") == [(5, 75.0, 11, 19)]


def test_what_was_recorded_again_after_a_resume_replaces_the_rest(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(10):
            run.scalar("loss", 1.0, step=step)
        run.scalar("once", 5.0, step=3)
    with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
        for step in range(6, 12):
            run.scalar("loss", 2.0, step=step)
    sql = "select step, value from scalars where name = 'loss' order by step, attempt"
    assert answer(tmp_path / "run", sql) == [(step, 1.0 if step < 6 else 2.0) for step in range(12)]
    assert len(answer(tmp_path / "run", sql, all_attempts=True)) == 16
    assert answer(tmp_path / "run", "select value from scalars where name = 'once'") == [(5.0,)]


def test_a_run_is_asked_while_it_is_written(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        assert run.flush_store(60)
        with query_runs([tmp_path / "run"], "select value from scalars") as result:
            run.scalar("loss", 2.0, step=1)
            assert run.flush_store(60)
            assert list(result) == [(1.0,)]


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("insert into runs(run) values ('x')", marks=pytest.mark.slow),
        pytest.param("delete from scalars", marks=pytest.mark.slow),
        pytest.param("drop view scalars", marks=pytest.mark.slow),
        "create table segment_0.x(y)",
        pytest.param("create temp table x(y)", marks=pytest.mark.slow),
        "attach '/tmp/x.db' as x",
        pytest.param("detach segment_0", marks=pytest.mark.slow),
        "vacuum into '/tmp/x.db'",
        "pragma query_only = off",
        "select * from pragma_database_list",
        "select load_extension('x')",
        pytest.param("begin immediate", marks=pytest.mark.slow),
        pytest.param("reindex", marks=pytest.mark.slow),
        "update segment_0.scalar set value = 0",
    ],
)
def test_nothing_but_reading_is_allowed(run_folder, sql):
    (segment,) = (run_folder / "store" / "rank_00000").glob("segment_*.db")
    before = segment.read_bytes()
    with pytest.raises(QueryError, match=r"can only read|no such|not"):
        answer(run_folder, sql)
    assert segment.read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select foo from scalars", "SQL: no such column: foo"),
        ("selec 1", 'SQL: near "selec": syntax error'),
        ("select 1; select 2", "only execute one statement"),
        ("select ?", "bindings"),
        ("", "incomplete input"),
        ("select percentile(data, 101) from histograms", "percentile: got 101; expected a number from 0 to 100"),
        ("select iso('noon')", "iso: got str 'noon'; expected nanoseconds since 1970"),
        ("select percentile(name, 50) from scalars", "expected the column data"),
        ("select zeroblob(1000000000)", "too big"),
    ],
)
def test_wrong_sql_is_one_clear_error(run_folder, sql, message):
    with pytest.raises(QueryError) as caught:
        answer(run_folder, sql)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_that_match_nothing_are_told(run_folder):
    with query_runs([run_folder], "select name from series", names=["los*", "acc*"]) as rows:
        assert (rows.unmatched, list(rows)) == (("acc*",), [("loss",)])


def test_a_query_without_end_is_given_up(run_folder):
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select {} from n"
    for what in ("count(*)", "x"):
        with pytest.raises(QueryError, match=r"took longer than 0\.2 s"):
            answer(run_folder, endless.format(what), timeout_s=0.2)


def test_a_query_is_given_up_while_it_copies_too(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    store = RunStore(tmp_path / "run", resume=True, segment_bytes=1)
    for step in range(12):
        store.put(Scalar(name="loss", step=step, value=float(step)), 100)
        assert store.flush(60)
    assert store.close(60)
    with pytest.raises(QueryError, match="took longer than 0 s"):
        answer(tmp_path / "run", "select count(*) from scalars", timeout_s=0)


def test_bins_and_tables_are_taken_apart_by_the_functions_of_json(run_folder):
    sql = "select sum(bin.value) from histograms, json_each(histogram_counts(data)) as bin where step = 5"
    assert answer(run_folder, sql) == [(6,)]
    assert answer(run_folder, "select cell.value from tables, json_tree(rows) as cell where cell.path = '$[0]'") == [
        (1,), ("x",)
    ]  # fmt: skip


def test_json_lines_lose_no_column(run_folder):
    stream = io.StringIO()
    with (
        query_runs([run_folder], "select a.step, b.step from scalars a, scalars b") as result,
        pytest.raises(QueryError, match="several columns are named 'step'"),
    ):
        write_json_lines(result.columns, result, stream)
    assert stream.getvalue() == ""


def test_a_place_without_a_run_and_wrong_arguments_are_named(run_folder, tmp_path):
    with pytest.raises(NotARunError, match="is not a folder"):
        query_runs([tmp_path / "missing"], "select 1")
    with pytest.raises(ExportError, match="steps are 'x'"):
        query_runs([run_folder], "select 1", steps="x")
    for wrong in (float("nan"), -1, "5"):
        with pytest.raises(QueryError, match=rf"timeout_s is {wrong!r}; expected seconds from 0"):
            query_runs([run_folder], "select 1", timeout_s=wrong)


def test_the_stores_stay_as_they_are_while_they_are_read(run_folder):
    (segment,) = (run_folder / "store" / "rank_00000").glob("segment_*.db")
    with query_runs([run_folder], "select * from scalars") as result:
        assert len(list(result)) == 12
    assert [path.name for path in segment.parent.iterdir() if path.suffix in (".db-wal", ".db-journal")] == []
    connection = sqlite3.connect(segment)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
