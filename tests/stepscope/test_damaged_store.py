"""Any cell or byte of a store may be damaged: every reader ends, with a clear word, and gives what is undamaged."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Scalar
from tracker_adapters.delivery.lane import Lane
from tracker_adapters.errors import StepscopeError
from tracker_adapters.testing.sinks import MemorySink

import stepscope
from stepscope.export.exporter import export_runs
from stepscope.query.database import query_runs

RANK = "store/rank_00000"
STEPS = 40
ODD = [None, "nope", "", b"\xff\xfe", -1, 0, 1.5, 2**60, 2**63 - 1, -(2**63), float("inf"), "9" * 400]
COLUMNS = [
    (table, column)
    for table, columns in {
        "meta": ["value"],
        "attempt": ["attempt", "first_seq", "started_ns"],
        "series": ["id", "kind", "name"],
        "scalar": ["series", "attempt", "step", "time_ns", "value"],
        "histogram": ["series", "attempt", "step", "time_ns", "data"],
        "artifact": ["series", "attempt", "step", "time_ns", "meta", "data", "blob"],
        "rollup": ["count", "last_step", "last_value", "first_step"],
    }.items()
    for column in columns
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    (folder / "notes.txt").write_text("notes")
    with stepscope.open_run(folder / "run", sinks=[]) as run:
        for step in range(STEPS):
            run.scalar("loss", step, step=step)
            run.histogram("weights", [1.0, step], step=step)
        run.text("notes", "text", step=0)
        run.table("table", ["a"], [[1]], step=0)
        run.alert("alert", "message", step=0)
        run.file(folder / "notes.txt", step=0)
    return folder / "run"


def ended(call: Callable[[], object]) -> None:
    """Calls it, and accepts our own errors only."""
    found: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except StepscopeError:
            pass
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it does not end"
    if found:
        raise found[0]


def read_everything(run: Path, output: Path) -> MemorySink:
    """All readers; returns what was delivered."""
    shutil.rmtree(output, ignore_errors=True)

    def read() -> None:
        with stepscope.read_run(run) as record:
            for info in record.names():
                reads = {"scalar": record.scalars, "histogram": record.histograms, "text": record.texts}
                ended(lambda info=info, reads=reads: reads.get(info.kind, record.tables)(info.name))
            for call in (record.alerts, record.files, lambda: record.scalar_ranges("loss")):
                ended(call)

    def query(sql: str) -> None:
        with query_runs([run], sql, timeout_s=30) as rows:
            list(rows)

    sink = MemorySink()
    lane = Lane(run, 0, "memory", str(output), lambda: sink, until="caught_up")
    ended(read)
    ended(lambda: export_runs([run], output, format="jsonl"))
    for table in ("scalars", "histograms", "texts", "tables", "files", "alerts", "series", "attempts"):
        ended(lambda table=table: query(f"SELECT * FROM {table}"))
    stopper = threading.Timer(3, lane.stopping.set)  # a whole store may be unreadable: then it is tried again
    stopper.start()
    ended(lane.run)
    stopper.cancel()
    return sink


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(COLUMNS), st.sampled_from(ODD), st.integers(0, 10))
def test_a_damaged_cell_costs_no_more_than_its_row(
    sound: Path, tmp_path: Path, where: tuple[str, str], value: object, row: int
) -> None:
    run, (table, column) = tmp_path / "run", where
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    with closing(sqlite3.connect(run / RANK / "segment_000000.db")) as segment, segment:
        keys = {"meta": "key", "attempt": "attempt", "series": "id", "rollup": "bucket"}
        key = keys.get(table, "seq")
        chosen = (
            f"(SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {row} % (SELECT max(count(*), 1) FROM {table}))"
        )
        try:
            segment.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = {chosen}", (value,))
        except sqlite3.IntegrityError:
            return
    sink = read_everything(run, tmp_path / "out")
    if table in ("scalar", "histogram", "artifact"):
        steps = [one.step for one in sink.artifacts if isinstance(one, Scalar)]
        assert len(set(steps) & set(range(STEPS))) >= STEPS - 1
        assert len(sink.artifacts) >= 2 * STEPS + 3


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**31), st.integers(1, 255), st.sampled_from([1, 16, 512]))
def test_damaged_bytes_are_one_clear_word(sound: Path, tmp_path: Path, at: int, mask: int, length: int) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    segment = run / RANK / "segment_000000.db"
    content = bytearray(segment.read_bytes())
    start = at % len(content)
    for place in range(start, min(start + length, len(content))):
        content[place] ^= mask
    segment.write_bytes(content)
    read_everything(run, tmp_path / "out")
