"""Export and query as a user types them, read by DuckDB and pandas; their memory; and what a kill leaves."""

import json
import signal
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import psutil
import pytest
from click.testing import CliRunner
from readback_export import read_table
from s3_server import BUCKET, s3_endpoint
from tracker_adapters.artifacts import sha256_of
from tracker_adapters.remote.place import RemotePlace
from waiting import until

import stepscope
from stepscope.cli import main

NAMES = tuple(f"grad/layer{number}" for number in range(40))
ENDLESS = "with recursive n(x) as (select 1 union all select x from n) select * from n where x = 2"
GROWTH = """
import sys, psutil
from stepscope.export import export_runs
process, seen = psutil.Process(), []
note = lambda run, rows: seen.append(process.memory_info().rss)
exported = export_runs([sys.argv[1]], sys.argv[2], format=sys.argv[3], progress=note)
print(exported.rows["scalars"], len(seen), max(seen[len(seen) // 4 :]) - seen[len(seen) // 4])
"""


def run_command(*arguments, cwd):
    command = [sys.executable, "-m", "stepscope", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def is_half_written(folder):
    return any(path.stat().st_size > 2**20 for path in folder.glob(".*.part/scalars.csv"))


@pytest.fixture(scope="module")
def two_million(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    with stepscope.open_run(folder / "run", sinks=[]) as run:
        for step in range(50_000):
            run.scalars(NAMES, generator.normal(size=len(NAMES)), step=step)
            if step % 20_000 == 0:
                run.flush_store()
    return folder / "run"


@pytest.fixture
def runs(tmp_path):
    for seed in range(2):
        with stepscope.open_run(tmp_path / "runs" / f"seed{seed}", sinks=[], config={"seed": seed}) as run:
            for step in range(100):
                run.scalars(["loss", "grad/a", "grad/b"], [seed + 1 / (step + 1), step, float("nan")], step=step)
            run.histogram("weights", np.arange(100.0), step=5)
            run.image("input", np.zeros((2, 3), np.uint8), step=0, layout="HW")
            run.text("=1+1", "@note", step=0)
    return tmp_path / "runs"


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_rows(two_million, tmp_path, file_format):
    arguments = [str(two_million), str(tmp_path / "out"), file_format]
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, *arguments], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, parts, growth = map(int, done.stdout.split())
    assert (rows, parts >= 50) == (2_000_000, True)
    # All rows together take a hundred times as much in Python.
    assert growth < 40 * 1024 * 1024
    if file_format == "parquet":
        table = duckdb.sql(f"select count(*), count(distinct name), max(step) from '{tmp_path}/out/scalars.parquet'")
        assert table.fetchall() == [(2_000_000, 40, 49_999)]


@pytest.mark.slow
def test_a_query_over_two_million_scalars_takes_no_copy(two_million, tmp_path):
    done = run_command(
        "query", str(two_million), "select name, count(*) n, max(step) from scalars group by name", "--format", "csv",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 41
    assert "grad/layer7,50000,49999" in done.stdout


@pytest.mark.slow
def test_an_export_that_is_killed_leaves_nothing_under_its_name(two_million, tmp_path):
    (tmp_path / "out").mkdir()
    process = subprocess.Popen([sys.executable, "-m", "stepscope", "export", str(two_million)], cwd=tmp_path / "out")
    try:
        until(lambda: process.poll() is not None or is_half_written(tmp_path / "out"))
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(60)
    assert not (tmp_path / "out" / "export").exists()
    done = run_command("export", str(two_million), "--names", "grad/layer1", cwd=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "export" / "export.json").read_text())["tables"]["scalars"]["rows"] == 50_000


@pytest.mark.parametrize("file_format", ["csv", "parquet", "jsonl"])
def test_all_runs_are_exported_at_once(runs, tmp_path, file_format):
    names = ["--names", "grad/*", "--names", "loss"]
    done = CliRunner().invoke(
        main, ["export", str(runs), *names, "--format", file_format, "--output", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.stderr
    assert "scalars: 600 rows" in done.stdout
    rows = read_table(tmp_path / "out", "scalars", file_format)
    assert {(row["run"], row["name"]) for row in rows} == {
        (run, name) for run in ("seed0", "seed1") for name in ("loss", "grad/a", "grad/b")
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["export.json", f"runs.{file_format}", f"scalars.{file_format}"]
    )


def test_duckdb_and_pandas_read_the_tables(runs, tmp_path):
    done = run_command("export", "runs/*", "--format", "parquet", "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scalars = f"'{tmp_path}/out/scalars.parquet'"
    lowest = f"select run, min(value) from {scalars} where name = 'loss' group by all order by 1"
    assert duckdb.sql(lowest).fetchall() == [("seed0", 0.01), ("seed1", 1.01)]
    nans = f"select count(*), count(*) filter (isnan(value)) from {scalars} where name = 'grad/b'"
    assert duckdb.sql(nans).fetchall() == [(200, 200)]
    percentile, bins = duckdb.sql(f"select p50, len(counts) from '{tmp_path}/out/histograms.parquet'").fetchall()[0]
    assert abs(percentile - 49) < 49 * 0.0625
    assert bins > 20
    frame = pd.read_parquet(tmp_path / "out" / "images.parquet")
    assert frame["png"][0].startswith(b"\x89PNG")
    assert str(frame["time"].dt.tz) == "UTC"


def test_without_its_package_a_format_names_the_extra(runs, tmp_path):
    without = "import sys; sys.modules.update(pyarrow=None, torch=None); from stepscope.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", without, "export", "runs", "--format", "parquet"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'stepscope[export]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.slow
def test_an_export_goes_to_an_object_store(runs, tmp_path, monkeypatch):
    url = f"s3://{BUCKET}/tables"
    with s3_endpoint(tmp_path) as s3:
        for name, value in s3.variables.items():
            monkeypatch.setenv(name, value)
        arguments = ["export", str(runs), "--format", "parquet", "--output", url]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines()[-1] == url
        place = RemotePlace(url)
        place.download("scalars.parquet", tmp_path / "scalars.parquet")
        files = json.loads(place.read("export.json") or b"")["files"]
        assert sha256_of(tmp_path / "scalars.parquet") == files["scalars.parquet"]["sha256"]
        assert len(read_table(tmp_path, "scalars", "parquet")) == 600
        again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 2
    assert "choose another place" in again.stderr


def test_names_that_look_like_formulas_are_data(runs, tmp_path):
    done = CliRunner().invoke(main, ["export", str(runs), "--kinds", "text", "--output", str(tmp_path / "out")])
    assert done.exit_code == 0, done.stderr
    frame = pd.read_csv(tmp_path / "out" / "texts.csv")
    assert frame[["name", "text"]].to_numpy().tolist() == [["=1+1", "@note"]] * 2


def test_a_query_answers_as_table_csv_and_json(runs):
    sql = (
        "select run, name, value, iso(time_ns) as time, data from scalars, (select data from histograms limit 1) "
        "where step = 1 order by run, name limit 2"
    )
    answers = {
        file_format: CliRunner().invoke(main, ["query", str(runs), sql, "--format", file_format])
        for file_format in ("table", "csv", "jsonl")
    }
    assert all(done.exit_code == 0 and not done.stderr for done in answers.values()), answers
    rows = [json.loads(line) for line in answers["jsonl"].stdout.splitlines()]
    assert [(row["run"], row["name"], row["value"]) for row in rows] == [
        ("seed0", "grad/a", 1),
        ("seed0", "grad/b", None),
    ]
    assert answers["csv"].stdout.splitlines()[0] == "run,name,value,time,data"
    assert "grad/a" in answers["table"].stdout
    assert "bytes)" in answers["table"].stdout


def test_what_a_text_does_to_a_terminal_is_shown_instead(runs):
    sql = "select char(27) || '[2J' as text, 'two' || char(10) || 'lines', 'ünï'"
    shown = CliRunner().invoke(main, ["query", str(runs), sql]).stdout
    assert r"\x1b[2J" in shown
    assert "\x1b" not in shown
    assert "ünï" in shown


def test_an_interrupted_query_says_so(runs):
    line = [sys.executable, "-m", "stepscope", "query", str(runs), ENDLESS]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True) as query:
        process = psutil.Process(query.pid)
        until(lambda: any(file.path.endswith(".db") for file in process.open_files()))
        opened_at = process.cpu_times().user
        until(lambda: process.cpu_times().user > opened_at + 0.2)  # the database is open for far less before it counts
        query.send_signal(signal.SIGINT)
        _, errors = query.communicate(timeout=60)
    assert (query.returncode, errors) == (130, "stepscope: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "missing"], "missing is not a folder"),
        (["export", "runs", "--names", "lss"], "no name in 2 runs matches 'lss'"),
        (["export", "runs", "--kinds", "scalr"], "kinds hold 'scalr'"),
        (["export", "runs", "--steps", "9:1"], "steps are '9:1'"),
        (["export", "runs", "--ranks", "x"], "are not ranks"),
        (["export", "runs", "--format", "xml"], "'xml' is not one of"),
        (["export", "runs", "--output", "runs"], "is not empty"),
        (["export"], "Missing argument"),
        (["query", "runs", "select missing"], "SQL: no such column: missing"),
        (["query", "runs", "drop table runs"], "queries can only read"),
        (["query", "runs"], "give the run and the SQL"),
        (["query", "runs", ENDLESS, "--timeout", "0.1"], "took longer than 0.1 s"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(runs, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
