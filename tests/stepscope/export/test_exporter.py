"""``export_runs``: one tidy table a kind, read back with the readers that people use."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readback_export import read_table

import stepscope
from stepscope.export import export_runs
from stepscope.query import query_runs

FORMATS = ("csv", "jsonl", "parquet")
VALUES = [0.1, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, 0.0, 1e16, 123456789.123]
NAMES = ["loss", '=cmd|"x",\n1', "+plus", "@at", "grad/ä b", " ", "-1"]


def fill(run):
    for step, value in enumerate(VALUES):
        for name in NAMES:
            run.scalar(name, value, step=step)
    run.histogram("weights", np.array([1.0, -2.0, 0.0, float("nan"), float("inf"), 3.5]), step=3)
    run.histogram("empty", np.array([float("nan")]), step=3)
    run.image("input", np.arange(12, dtype=np.uint8).reshape(3, 4), step=1, layout="HW")
    run.image("large", np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8), step=1, layout="HWC")
    run.text("notes", 'a "quoted"\r\nline, and ünïcode', step=2)
    run.text("notes", "", step=3)
    run.alert("exploding_gradient", "fc1: norm 3.1e5", step=4, level="error")
    run.table("cells", ["a", "b,c"], [[1, "x"], [float("nan"), None], [True, "true"]], step=5)


@pytest.fixture
def run_folder(tmp_path):
    (tmp_path / "report.html").write_bytes(b"<p>hello")
    with stepscope.open_run(tmp_path / "runs" / "one", sinks=[], config={"lr": 0.1}, tags=["a"]) as run:
        fill(run)
        run.file(tmp_path / "report.html", media_type="text/html", step=6)
    return tmp_path / "runs" / "one"


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_scalar_is_a_row_with_its_exact_value_and_time(run_folder, tmp_path, file_format):
    exported = export_runs([run_folder], tmp_path / "out", format=file_format)

    assert exported.rows["scalars"] == len(NAMES) * len(VALUES)
    rows = read_table(tmp_path / "out", "scalars", file_format)
    assert {tuple(row)[:7] for row in rows} == {("run", "rank", "attempt", "name", "step", "time", "value")}
    with stepscope.read_run(run_folder) as record:
        for name in NAMES:
            series = record.scalars(name)
            mine = [row for row in rows if row["name"] == name]
            assert [row["step"] for row in mine] == series.steps.tolist()
            assert [row["time"] for row in mine] == series.times_ns.tolist()
            np.testing.assert_array_equal([float(row["value"]) for row in mine], series.values)
            assert {(row["run"], row["rank"], row["attempt"]) for row in mine} == {("one", 0, 1)}


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_histogram_is_a_row_with_counts_moments_percentiles_and_bins(run_folder, tmp_path, file_format):
    export_runs([run_folder], tmp_path / "out", format=file_format)

    full, empty = read_table(tmp_path / "out", "histograms", file_format)
    with stepscope.read_run(run_folder) as record:
        histogram = record.histograms("weights")[0]
    assert (full["count"], full["nan"], full["pos_inf"], full["neg_inf"], full["zero"]) == (6, 1, 1, 0, 1)
    assert (full["min"], full["max"], full["mean"], full["std"]) == (-2.0, 3.5, histogram.mean, histogram.std)
    percentiles = [full[f"p{q:02d}"] for q in (1, 5, 25, 50, 75, 95, 99)]
    assert percentiles == histogram.percentile([1, 5, 25, 50, 75, 95, 99]).tolist()
    edges, counts = histogram.edges()
    assert (full["edges"], full["counts"]) == (edges.tolist(), counts.tolist())
    assert (empty["count"], empty["nan"], empty["edges"], empty["counts"]) == (1, 1, [], [])
    assert all(math.isnan(empty[key]) for key in ("min", "max", "mean", "std", "p50"))


def test_percentiles_of_many_histograms_are_those_of_each(tmp_path):
    generator = np.random.default_rng(0)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(50):
            values = generator.normal(0, 10.0 ** generator.integers(-40, 38), int(generator.integers(1, 300)))
            run.histogram("x", np.where(generator.random(values.size) < 0.1, 0, values), step=step)
    export_runs([tmp_path / "run"], tmp_path / "out", format="parquet")
    with stepscope.read_run(tmp_path / "run") as record:
        for row, histogram in zip(
            read_table(tmp_path / "out", "histograms", "parquet"), record.histograms("x"), strict=True
        ):
            assert [row["p01"], row["p50"], row["p99"]] == histogram.percentile([1, 50, 99]).tolist()
            assert row["edges"] == histogram.edges()[0].tolist()
            assert row["counts"] == histogram.edges()[1].tolist()


@pytest.mark.parametrize("file_format", FORMATS)
def test_pictures_keep_their_bytes(run_folder, tmp_path, file_format):
    export_runs([run_folder], tmp_path / "out", format=file_format)

    with stepscope.read_run(run_folder) as record:
        expected = {name: record.images(name)[0].png for name in ("input", "large")}
    rows = read_table(tmp_path / "out", "images", file_format)
    if file_format == "parquet":
        assert {row["name"]: row["png"] for row in rows} == expected
    else:
        assert {row["name"]: (tmp_path / "out" / row["file"]).read_bytes() for row in rows} == expected
    assert [(row["width"], row["height"]) for row in rows] == [(4, 3), (400, 400)]


@pytest.mark.parametrize("file_format", FORMATS)
def test_texts_alerts_tables_and_files_have_tables_of_their_own(run_folder, tmp_path, file_format):
    export_runs([run_folder], tmp_path / "out", format=file_format)

    def table(name):
        return read_table(tmp_path / "out", name, file_format)

    assert [row["text"] for row in table("texts")] == ['a "quoted"\r\nline, and ünïcode', ""]
    assert [(row["level"], row["message"]) for row in table("alerts")] == [("error", "fc1: norm 3.1e5")]
    none = "" if file_format == "csv" else None
    assert [(row["row"], row["column"], row["type"], row["value"]) for row in table("tables")] == [
        (0, "a", "int", "1"),
        (0, "b,c", "str", "x"),
        (1, "a", "float", "nan"),
        (1, "b,c", "null", none),
        (2, "a", "bool", "true"),
        (2, "b,c", "str", "true"),
    ]
    (file,) = table("files")
    assert (tmp_path / "out" / file["file"]).read_bytes() == b"<p>hello"
    assert (file["filename"], file["size"], file["media_type"]) == ("report.html", 8, "text/html")
    (run,) = table("runs")
    assert (run["run"], run["status"], json.loads(run["config"])) == ("one", "finished", {"lr": 0.1})


def test_pandas_reads_the_csv_as_it_is(run_folder, tmp_path):
    export_runs([run_folder], tmp_path / "out", kinds=["scalar"])

    frame = pd.read_csv(
        tmp_path / "out" / "scalars.csv", parse_dates=["time"], keep_default_na=False, na_values=["nan"]
    )
    assert set(frame["name"]) == set(NAMES)
    np.testing.assert_array_equal(frame[frame["name"] == "loss"]["value"].astype(float), VALUES)


@pytest.mark.slow
@given(names=st.lists(st.text(min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=5, unique=True))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_survives_each_format(tmp_path_factory, names):
    names = [name for name in names if "\0" not in name]
    folder = tmp_path_factory.mktemp("names")
    with stepscope.open_run(folder / "run", sinks=[]) as run:
        run.scalar("first", 0.0, step=0)
        for name in names:
            run.scalar(name, 1.0, step=0)
    for file_format in FORMATS:
        export_runs([folder / "run"], folder / file_format, format=file_format)
        assert [row["name"] for row in read_table(folder / file_format, "scalars", file_format)] == ["first", *names]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_curve_is_a_row_for_each_point(tmp_path, file_format):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.curve("roc", [0, 0.5, 1], [0, math.nan, math.inf], step=3, title='a,"b"', x_label="fpr")
        run.curve("empty", [], [], step=3)
    exported = export_runs([tmp_path / "run"], tmp_path / "out", format=file_format)
    assert exported.rows == {"runs": 1, "curves": 3}
    rows = read_table(tmp_path / "out", "curves", file_format)
    assert [row["x"] for row in rows] == [0.0, 0.5, 1.0]
    assert repr([row["y"] for row in rows]) == "[0.0, nan, inf]"
    assert {(row["name"], row["step"], row["title"], row["x_label"]) for row in rows} == {("roc", 3, 'a,"b"', "fpr")}
    with query_runs([tmp_path / "run"], "select x, y, title from curves where name = 'roc'") as result:
        assert list(result) == [("[0.0, 0.5, 1.0]", '[0.0, "nan", "inf"]', 'a,"b"')]
