"""Any cell or byte of a store may be damaged: every reader ends, with a clear word, and gives what is undamaged."""

import logging
import shutil
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Scalar
from tracker_adapters.delivery import retry_policy
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.errors import StepscopeError
from tracker_adapters.store.segments.schema import open_for_writing, seal
from tracker_adapters.store.upkeep.retention import retain
from tracker_adapters.testing.sinks import MemorySink

import stepscope
from stepscope.cli import main
from stepscope.diagnosing.stored_reports import stored_reports
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
        "scalar": ["seq", "series", "attempt", "step", "time_ns", "value"],
        "histogram": ["series", "attempt", "step", "time_ns", "data"],
        "artifact": ["series", "attempt", "step", "time_ns", "meta", "data", "blob"],
        "rollup": ["count", "last_step", "last_value", "first_step"],
    }.items()
    for column in columns
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    (folder / "notes.txt").write_text("notes")
    with stepscope.open_run(folder / "run", sinks=[]) as run:
        for step in range(STEPS):
            run.scalar("loss", step, step=step)
            run.histogram("weights", [1.0, step], step=step)
        run.text("notes", "text", step=0)
        run.text("stepscope/report", "Verdict: healthy", step=0)
        run.table("table", ["a"], [[1]], step=0)
        run.alert("alert", "message", step=0)
        run.file(folder / "notes.txt", step=0)
    return folder / "run"


def copied(sound, run):
    """A copy of the run to damage."""
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    return run


def damage_cell(segment, table, column, value, row):
    """Puts a value into a cell; false when the table refuses it."""
    key = {"meta": "key", "attempt": "attempt", "series": "id", "rollup": "bucket"}.get(table, "seq")
    chosen = f"(SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {row} % (SELECT max(count(*), 1) FROM {table}))"
    with closing(sqlite3.connect(segment)) as connection, connection:
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = {chosen}", (value,))
        except sqlite3.IntegrityError:
            return False
    return True


def damage_bytes(segment, at, mask, length):
    content = bytearray(segment.read_bytes())
    start = at % len(content)
    for place in range(start, min(start + length, len(content))):
        content[place] ^= mask
    segment.write_bytes(content)


def ended(call):
    """Calls it, and accepts our own errors only."""
    found: list[BaseException] = []

    def work():
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


def read_everything(run, output):
    """All readers; returns what was delivered."""
    shutil.rmtree(output, ignore_errors=True)

    def read():
        with stepscope.read_run(run) as record:
            for info in record.names():
                reads = {"scalar": record.scalars, "histogram": record.histograms, "text": record.texts}
                ended(lambda info=info, reads=reads: reads.get(info.kind, record.tables)(info.name))
            reports = lambda: stored_reports(record)  # noqa: E731
            for call in (record.alerts, record.files, lambda: record.scalar_ranges("loss"), reports):
                ended(call)

    def query(sql):
        with query_runs([run], sql, timeout_s=30) as rows:
            list(rows)

    sink = MemorySink()
    worker = DeliveryWorker(run, 0, "memory", str(output), lambda: sink, until="caught_up")
    ended(read)
    ended(lambda: export_runs([run], output, format="jsonl"))
    for table in ("scalars", "histograms", "texts", "tables", "files", "alerts", "series", "attempts"):
        ended(lambda table=table: query(f"SELECT * FROM {table}"))
    ended(worker.run)
    return sink


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(retry_policy, "FIRST_RETRY_S", 0.001)  # a whole store may be unreadable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(COLUMNS), st.sampled_from(ODD), st.integers(0, 10))
def test_a_damaged_cell_costs_no_more_than_its_row(sound, tmp_path, where, value, row):
    table, column = where
    run = copied(sound, tmp_path / "run")
    if not damage_cell(run / RANK / "segment_000000.db", table, column, value, row):
        return
    sink = read_everything(run, tmp_path / "out")
    if table in ("scalar", "histogram", "artifact"):
        steps = [one.step for one in sink.artifacts if isinstance(one, Scalar)]
        assert len(set(steps) & set(range(STEPS))) >= STEPS - 1
        assert len(sink.artifacts) >= 2 * STEPS + 3


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**31), st.integers(1, 255), st.sampled_from([1, 16, 512]))
def test_damaged_bytes_are_one_clear_word(sound, tmp_path, at, mask, length):
    run = copied(sound, tmp_path / "run")
    damage_bytes(run / RANK / "segment_000000.db", at, mask, length)
    read_everything(run, tmp_path / "out")


@pytest.mark.parametrize(
    "column",
    [
        "count",
        "min",
        "last_step",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("non_finite", "max", "first_step", "last_value")),
    ],
)
def test_a_damaged_summary_is_listed(sound, tmp_path, column):
    run = copied(sound, tmp_path / "run")
    segment = run / RANK / "segment_000000.db"
    with closing(open_for_writing(segment, log_bytes=2**20)) as connection:
        seal(connection, 2 * STEPS + 5)
    for value in ODD:
        with closing(sqlite3.connect(segment)) as connection, connection, suppress(sqlite3.IntegrityError):
            connection.execute(f"UPDATE summary SET {column} = ?", (value,))
        answer = CliRunner().invoke(main, ["ls", str(run)])
        assert answer.exception is None or isinstance(answer.exception, SystemExit), (value, answer.exception)


@pytest.fixture(scope="module")
def resumed(sound, tmp_path_factory):
    """A run whose second attempt recorded the later half again."""
    run = copied(sound, tmp_path_factory.mktemp("resumed") / "run")
    with stepscope.open_run(run, sinks=[], resume=True) as going_on:
        for step in range(STEPS // 2, STEPS):
            going_on.scalar("loss", -step, step=step)
            going_on.histogram("weights", [step], step=step)
    return run


@pytest.mark.parametrize("table", ["scalar", pytest.param("histogram", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "column", ["step", *(pytest.param(column, marks=pytest.mark.slow) for column in ("series", "attempt"))]
)
def test_a_damaged_cell_of_a_run_that_was_resumed_costs_no_more_than_its_row(resumed, tmp_path, table, column):
    for row, value in enumerate(ODD, start=STEPS):
        run = copied(resumed, tmp_path / "run")
        if not damage_cell(run / RANK / "segment_000000.db", table, column, value, row):
            continue
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        exported = export_runs([run], tmp_path / "out", kinds=[table])
        assert abs(exported.rows[f"{table}s"] - STEPS) <= 1, value
        with query_runs([run], f"SELECT count(*) FROM {table}s", timeout_s=30) as rows:
            ((count,),) = rows
        assert abs(count - STEPS) <= 1, value


def values_of(run):
    """What can be read of the losses, by step, with NaN as a text that equals itself."""
    try:
        with stepscope.read_run(run) as record:
            found = record.scalars("loss")
            return dict(zip(found.steps.tolist(), map(str, found.values.tolist()), strict=True))
    except (StepscopeError, sqlite3.DatabaseError):
        return {}


def compacted_and_resumed(run):
    """Whatever is damaged, compacting and going on lose nothing that could be read before."""
    before, beside = values_of(run), sorted(path.name for path in (run / "blobs").rglob("*") if path.is_file())
    damaged: dict[Path, str] = {}
    with suppress(StepscopeError):
        damaged = dict(retain(run, 1, blob_grace_s=0.0).damaged)
    after = values_of(run)
    if damaged:
        assert after == before
        assert sorted(path.name for path in (run / "blobs").rglob("*") if path.is_file()) == beside
    else:
        assert set(after.items()) <= set(before.items())
    try:
        going_on = stepscope.open_run(run, sinks=[], resume=True)
    except StepscopeError as error:
        assert str(run) in str(error)
        return
    going_on.scalar("loss", -1.0, step=STEPS)
    assert going_on.close()
    assert (going_on.stats.lost, values_of(run)) == ({}, after | {STEPS: "-1.0"})


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(COLUMNS), st.sampled_from(ODD), st.integers(0, 10))
def test_a_damaged_cell_is_not_compacted_away_and_a_run_goes_on(sound, tmp_path, where, value, row):
    run = copied(sound, tmp_path / "run")
    if damage_cell(run / RANK / "segment_000000.db", *where, value, row):
        ended(lambda: compacted_and_resumed(run))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**31), st.integers(1, 255), st.sampled_from([1, 16, 512]))
def test_damaged_bytes_are_not_compacted_away_and_a_run_goes_on_or_says_why(sound, tmp_path, at, mask, length):
    run = copied(sound, tmp_path / "run")
    damage_bytes(run / RANK / "segment_000000.db", at, mask, length)
    ended(lambda: compacted_and_resumed(run))


def test_a_damaged_schema_that_sqlite_quotes_in_no_utf_8_is_one_clear_word(sound, tmp_path):
    for name in (b"scalar", b"attempt", b"rollup"):
        run = copied(sound, tmp_path / "run")
        segment = run / RANK / "segment_000000.db"
        content = segment.read_bytes()
        for place in range(content.index(b"CREATE TABLE " + name), content.index(b"CREATE TABLE " + name) + 40):
            segment.write_bytes(content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :])
            with pytest.raises(StepscopeError, match=r"segment_000000\.db"), stepscope.read_run(run) as record:
                record.scalars("loss")
        ended(lambda run=run: compacted_and_resumed(run))


def test_a_damaged_ledger_is_named_and_without_it_each_sink_gets_everything(tmp_path):
    def opened(**options):
        return stepscope.open_run(tmp_path / "run", sinks=["local"], delivery="thread", **options)  # type: ignore[arg-type]

    with opened() as run:
        run.scalar("loss", 1.0, step=0)
    ledger = tmp_path / "run" / RANK / "delivery.db"
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE cursor SET failed = '{'")
    with pytest.raises(StepscopeError, match=r"expected a valid delivery.db: move it away, and each sink starts again"):
        opened(resume=True)
    ledger.rename(tmp_path / "damaged.db")
    with opened(resume=True) as run:
        run.scalar("loss", 2.0, step=1)
    rows = (tmp_path / "run" / "local" / "scalars.csv").read_text().splitlines()
    assert len(rows) == 3
    assert run.stats.sinks["local"].delivered == 2
