"""The local sink against the contract and beyond, read back with csv, json and Pillow."""

import csv
import json
import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_folder import opened, snapshot
from readback_local import read_back, read_lines, read_table
from tracker_adapters.artifacts import Page, Scalar, Table
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.local import LocalSink
from tracker_adapters.sinks.local.folder import STREAMS
from tracker_adapters.testing.contract import INFO, ODD_NAMES, TIME_NS, SinkContract, one_of_each

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
CELLS = st.one_of(TEXTS, st.integers(-(2**63), 2**63), st.floats(), st.booleans(), st.none())


class TestLocalSink(SinkContract):
    sink_class = LocalSink

    def read_back(self, options):
        return read_back(options)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "local"


def test_the_folder_explains_itself_and_keeps_the_runs_configuration(target):
    with opened(target) as sink:
        assert json.loads((target / "run_info.json").read_text())["status"] == "running"
        sink.finish("failed")
    info = json.loads((target / "run_info.json").read_text(encoding="utf-8"))
    assert info["config"] == INFO.config
    assert (info["id"], info["name"], info["tags"], info["status"]) == ("contract", "contract run", ["t1"], "failed")
    readme = (target / "README.txt").read_text()
    assert len(readme.splitlines()) == 6
    assert all(stream in readme for stream in STREAMS)


def test_scalars_are_csv_with_exact_times_and_values(target):
    values = [0.1, 1 / 3, math.nan, -math.inf, 5e-324]
    scalars = [
        Scalar(name=name, value=value, step=2**63 - 1, time_ns=TIME_NS) for name in ODD_NAMES for value in values
    ]
    with opened(target) as sink:
        sink.write(Batch.of(scalars))
    with (target / "scalars.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, strict=True))
    assert [row["name"] for row in rows] == [scalar.name for scalar in scalars]
    assert [row["value"] for row in rows] == [repr(scalar.value) for scalar in scalars]
    assert {row["step"] for row in rows} == {str(2**63 - 1)}
    assert {row["time"] for row in rows} == {"2023-11-14T22:13:20.123456789Z"}
    assert datetime.fromisoformat(rows[0]["time"]).astimezone(UTC).timestamp() == pytest.approx(TIME_NS / 1e9)


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.tuples(
            st.lists(TEXTS, min_size=width, max_size=width),
            st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=5),
        )
    )
)
def test_tables_keep_text_numbers_truth_values_and_none_apart(content):
    from tracker_adapters.sinks.local.lines import table_text

    columns, rows = content
    table = Table(name="t", columns=columns, rows=rows, step=0)  # type: ignore[arg-type]
    assert repr(read_table(table_text(table))) == repr((table.columns, table.rows))  # NaN and True by their looks


def test_files_lie_under_their_name_step_and_number(target, tmp_path):
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path, name="val/fc1", step=12), first_seq=100))
    assert {path for path in snapshot(target) if "/" in path} == {
        "images/val~fc1/000000012-102.png",
        "text/val~fc1/000000012-103.md",
        "tables/val~fc1/000000012-105.csv",
        "pages/val~fc1/000000012-106.pkl",
        "files/val~fc1/000000012-107.bin",
        "curves/val~fc1/000000012-108.csv",
    }
    page = next(line for line in read_lines(target / "artifacts.jsonl") if line["kind"] == "page")
    assert page["filename"] == "page_0.pkl"
    assert page["contents"] == [
        {"datapoint": 7, "debugger": "conv1", "summary": "feature_map float32 (16, 8, 8)"},
        {"datapoint": 8, "debugger": "conv1", "summary": "feature_map float32 (16, 8, 8)"},
    ]


def test_what_the_run_keeps_is_never_written_to(target, tmp_path):
    """Pages may be links to the run's own file: writing one again must not go through the link."""
    artifacts = one_of_each(tmp_path)
    page, file = artifacts[6:8]
    assert isinstance(page, Page)
    with opened(target) as sink:
        sink.write(Batch.of(artifacts))
        (index,) = [line for line in read_lines(target / "artifacts.jsonl") if line["kind"] == "page"]
        assert (target / index["path"]).samefile(page.path)
        sink.write(Batch.of([replace(artifact, step=3) for artifact in one_of_each(tmp_path)]))
        (target / "files" / "file" / "000000003-8.bin").write_bytes(b"edited")
    assert (page.path.read_bytes(), file.path.read_bytes()) == (b"page bytes " * 50, bytes(range(256)))  # type: ignore[attr-defined]


def test_a_file_that_is_gone_is_counted_and_the_rest_is_written(target, tmp_path):
    artifacts = one_of_each(tmp_path)
    (tmp_path / "page_0.pkl").unlink()
    with opened(target) as sink:
        assert sink.write(Batch.of(artifacts)) == {"missing_file": 1}
    assert sorted(s.kind for s in read_back({"target": str(target)})) == sorted(
        artifact.kind for artifact in artifacts if artifact.kind != "page"
    )
