"""The local sink against the contract and beyond, read back with csv, json and Pillow."""

from __future__ import annotations

import csv
import json
import math
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readback_local import read_back, read_lines, read_table
from tracker_adapters.artifacts import Page, Scalar, Table, Text
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkConfigError, SinkError, StartOver
from tracker_adapters.sinks.local import LocalSink
from tracker_adapters.sinks.local.folder import STREAMS
from tracker_adapters.testing.contract import INFO, ODD_NAMES, TIME_NS, Shown, SinkContract, one_of_each, shown

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
CELLS = st.one_of(TEXTS, st.integers(-(2**63), 2**63), st.floats(), st.booleans(), st.none())


class TestLocalSink(SinkContract):
    sink_class = LocalSink

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "local"


@contextmanager
def opened(target: Path, token: bytes | None = None) -> Iterator[LocalSink]:
    sink = LocalSink(str(target))
    try:
        sink.open(INFO, token)
        yield sink
    finally:
        sink.close()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_explains_itself_and_keeps_the_runs_configuration(target: Path) -> None:
    with opened(target) as sink:
        assert json.loads((target / "run_info.json").read_text())["status"] == "running"
        sink.finish("failed")
    info = json.loads((target / "run_info.json").read_text(encoding="utf-8"))
    assert info["config"] == INFO.config
    assert (info["id"], info["name"], info["tags"], info["status"]) == ("contract", "contract run", ["t1"], "failed")
    readme = (target / "README.txt").read_text()
    assert len(readme.splitlines()) == 5
    assert all(stream in readme for stream in STREAMS)


def test_scalars_are_csv_with_exact_times_and_values(target: Path) -> None:
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
def test_tables_keep_text_numbers_truth_values_and_none_apart(content: tuple[list[str], list[list[Any]]]) -> None:
    from tracker_adapters.sinks.local.lines import table_text

    columns, rows = content
    table = Table(name="t", columns=columns, rows=rows, step=0)  # type: ignore[arg-type]
    assert repr(read_table(table_text(table))) == repr((table.columns, table.rows))  # NaN and True by their looks


def test_files_lie_under_their_name_step_and_number(target: Path, tmp_path: Path) -> None:
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path, name="val/fc1", step=12), first_seq=100))
    assert {path for path in snapshot(target) if "/" in path} == {
        "images/val~fc1/000000012-102.png",
        "text/val~fc1/000000012-103.md",
        "tables/val~fc1/000000012-105.csv",
        "pages/val~fc1/000000012-106.pkl",
        "files/val~fc1/000000012-107.bin",
    }
    page = next(line for line in read_lines(target / "artifacts.jsonl") if line["kind"] == "page")
    assert page["filename"] == "page_0.pkl"
    assert page["contents"] == [
        {"datapoint": 7, "debugger": "conv1", "summary": "feature_map float32 (16, 8, 8)"},
    ]


def test_what_the_run_keeps_is_never_written_to(target: Path, tmp_path: Path) -> None:
    """Pages may be links to the run's own file: writing one again must not go through the link."""
    artifacts = one_of_each(tmp_path)
    page, file = artifacts[-2:]
    assert isinstance(page, Page)
    with opened(target) as sink:
        sink.write(Batch.of(artifacts))
        (index,) = [line for line in read_lines(target / "artifacts.jsonl") if line["kind"] == "page"]
        assert (target / index["path"]).samefile(page.path)
        sink.write(Batch.of([replace(artifact, step=3) for artifact in one_of_each(tmp_path)]))
        (target / "files" / "file" / "000000003-8.bin").write_bytes(b"edited")
    assert (page.path.read_bytes(), file.path.read_bytes()) == (b"page bytes " * 50, bytes(range(256)))  # type: ignore[attr-defined]


def test_a_file_that_is_gone_is_counted_and_the_rest_is_written(target: Path, tmp_path: Path) -> None:
    artifacts = one_of_each(tmp_path)
    (tmp_path / "page_0.pkl").unlink()
    with opened(target) as sink:
        assert sink.write(Batch.of(artifacts)) == {"missing_file": 1}
    assert sorted(s.kind for s in read_back({"target": str(target)})) == sorted(
        artifact.kind for artifact in artifacts if artifact.kind != "page"
    )


# Whose folder it is.


def test_a_folder_with_files_from_elsewhere_is_refused_and_left_as_it_is(target: Path) -> None:
    target.mkdir()
    (target / "README.txt").write_text("mine")
    with pytest.raises(SinkConfigError, match=r"holds 'README\.txt'.*folder of its own"), opened(target):
        pass
    assert snapshot(target) == {"README.txt": b"mine"}


def test_a_folder_of_another_run_is_refused(target: Path) -> None:
    with opened(target) as sink:
        sink.write(Batch.of([Text(name="t", text="kept", step=0)]))
    before = snapshot(target)
    other = LocalSink(str(target))
    with pytest.raises(SinkConfigError, match="not of run 'other'"):
        other.open(replace(INFO, id="other", name="other"), None)
    with pytest.raises(StartOver):
        other.open(replace(INFO, id="other", name="other"), b"{}")
    other.close()
    assert snapshot(target) == before


def test_starting_over_clears_the_runs_own_files_only(target: Path, tmp_path: Path) -> None:
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path)))
        (target / "images" / "mine.png").write_bytes(b"mine")
        (target / "notes.txt").write_bytes(b"mine")
        index = target / "artifacts.jsonl"
        for path in ("../outside", "notes.txt", "images/../notes.txt", "/etc/hostname", 3, None):
            index.write_bytes(index.read_bytes() + json.dumps({"path": path}).encode() + b"\n")
        index.write_bytes(index.read_bytes() + b'[]\nno json\n{"path": "text/te')
        (tmp_path / "outside").write_bytes(b"mine")
    with opened(target):
        pass
    assert (tmp_path / "outside").read_bytes() == b"mine"
    assert {path for path in snapshot(target) if path not in STREAMS} == {
        "README.txt",
        "run_info.json",
        "images/mine.png",
        "notes.txt",
    }


# Back to a token.


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_power_cut_anywhere_after_a_token_costs_nothing(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After a power cut the files may end anywhere behind the token, and what the index names may be missing."""
    folder = tmp_path_factory.mktemp("cut")
    target = folder / "local"
    first, second = one_of_each(folder, step=1), one_of_each(folder, step=2)
    with opened(target) as sink:
        sink.write(Batch.of(first))
        token = sink.flush()
        kept = snapshot(target)
        sink.write(Batch.of(second, first_seq=9))
    for stream in STREAMS:
        whole = (target / stream).stat().st_size
        os.truncate(target / stream, data.draw(st.integers(len(kept[stream]), whole), label=stream))
    for path in sorted(set(snapshot(target)) - set(kept)):
        if data.draw(st.booleans(), label=path):
            (target / path).unlink()
    with opened(target, token) as sink:
        sink.write(Batch.of(second, first_seq=9))
        sink.flush()
    assert sorted(map(repr, read_back({"target": str(target)}))) == sorted(map(repr, map(shown, [*first, *second])))


def test_opening_at_a_token_restores_the_folder_to_the_byte(target: Path, tmp_path: Path) -> None:
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path, step=1)))
        token = sink.flush()
        before = snapshot(target)
        sink.write(Batch.of(one_of_each(tmp_path, step=2, name="other"), first_seq=9))
        sink.flush()
        sink.finish("finished")
    with opened(target, token):
        pass
    assert snapshot(target) == before
    assert not (target / "images" / "other").exists()


@pytest.mark.parametrize("stream", STREAMS)
def test_a_token_beyond_what_is_there_asks_to_start_over(target: Path, tmp_path: Path, stream: str) -> None:
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path)))
        token = sink.flush()
    os.truncate(target / stream, 1)
    with pytest.raises(StartOver, match=stream), opened(target, token):
        pass


def test_a_token_without_a_folder_asks_to_start_over(target: Path) -> None:
    with opened(target) as sink:
        token = sink.flush()
    target.rename(target.with_name("elsewhere"))
    with pytest.raises(StartOver, match="holds nothing"), opened(target, token):
        pass


# When it cannot be written.


def test_a_full_disk_is_reported_and_the_next_sink_carries_on(target: Path, tmp_path: Path) -> None:
    """The limit on a file's size stands for the full disk; both cut a write short."""
    artifacts = one_of_each(tmp_path, step=1)
    long_text = Text(name="long", text="x" * 300_000, step=2)
    scalars = [Scalar(name="s" * 900, value=1.0, step=step, time_ns=TIME_NS) for step in range(400)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(target) as sink:
        sink.write(Batch.of(artifacts))
        token = sink.flush()
        for batch in (Batch.of([long_text], first_seq=9), Batch.of(scalars, first_seq=10)):
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
                with pytest.raises(SinkError, match=r"cannot write to .*local"):
                    sink.write(batch)
                sink.close()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            sink = LocalSink(str(target))
            sink.open(INFO, token)
        sink.write(Batch.of([long_text, *scalars], first_seq=9))
        sink.flush()
        sink.close()
    TestLocalSink().assert_shows({"target": str(target)}, [*artifacts, long_text, *scalars])


def test_a_target_that_cannot_be_a_folder_is_a_sink_error(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("")
    with pytest.raises(SinkError, match=r"cannot write to .*occupied"), opened(tmp_path / "occupied"):
        pass


@pytest.mark.parametrize("target", ["", "http://host/x", "a\0b"])
def test_a_target_that_is_no_folder_is_refused_by_resolve(tmp_path: Path, target: str) -> None:
    with pytest.raises(SinkConfigError, match="expected a local folder"):
        LocalSink.resolve({"target": target}, tmp_path)


def test_a_sink_that_is_not_open_says_so(target: Path) -> None:
    with pytest.raises(SinkError, match="not open"):
        LocalSink(str(target)).write(Batch.of([]))


def test_few_files_are_open_and_none_after_close(target: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with opened(target) as sink:
        for number, name in enumerate(ODD_NAMES):
            sink.write(Batch.of(one_of_each(tmp_path, name=name), first_seq=1 + 8 * number))
            sink.flush()
        assert len(os.listdir("/proc/self/fd")) == before + len(STREAMS)  # noqa: PTH208
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
