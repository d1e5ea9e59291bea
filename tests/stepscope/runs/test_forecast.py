"""The forecast: one line at the first hundredth step, from what the store holds."""

import logging
import os
from contextlib import closing

import numpy as np
import pytest
from tracker_adapters.errors import RunError
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.sizes import newest, size_of
from waiting import until

import stepscope
from stepscope.runs.byte_sizes import format_bytes, parse_bytes
from stepscope.runs.forecast import Forecast, Volume, forecast_line, volume


def emit(run, steps):
    for step in steps:
        run.scalar("loss", step, step=step)
        run.histogram("grad", np.arange(1.0, 500.0), step=step)
    assert run.flush_store(60)


def test_the_line_says_bytes_a_day_pace_and_limit():
    first = Volume(nbytes=1_000_000, step=20, time_ns=5 * 10**9)
    assert forecast_line(first, Volume(3_000_000, 150, 15 * 10**9), 10**10) == (
        "17.3 GB a day at this pace (13 steps/s); max_run_bytes is 10 GB"
    )
    assert forecast_line(first, Volume(1_010_000, 120, 1005 * 10**9), None) == (
        "864 kB a day at this pace (0.1 steps/s); max_run_bytes is not set"
    )


def logged(caplog):
    return [record.message for record in caplog.records if record.name == "stepscope.runs.forecast"]


def test_it_comes_once_at_the_hundredth_step(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with stepscope.open_run(tmp_path / "run", sinks=[], max_run_bytes="30 MB") as run:
        run._forecast = None
        forecast = Forecast(run.path, 0, 30_000_000)
        forecast.look()
        for steps in (range(1), range(1, 100), range(100, 101)):
            assert logged(caplog) == []
            emit(run, steps)
            forecast._look_at = 0.0
            forecast.look()
        (line,) = logged(caplog)
        assert "a day at this pace" in line
        forecast._look_at = 0.0
        forecast.look()
        assert len(logged(caplog)) == 1


def test_a_run_that_goes_on_logs_it_by_itself_and_prints_nothing(tmp_path, caplog, capsys):
    caplog.set_level(logging.INFO)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for steps in (range(1), range(1, 102)):
            emit(run, steps)
            looks = run._forecast._pause_s
            run._forecast._look_at = 0.0  # it looks once a second
            until(lambda looks=looks: run._forecast._pause_s > looks)
    (line,) = logged(caplog)
    assert "max_run_bytes is not set" in line
    assert capsys.readouterr().err == ""


def test_the_volume_is_what_the_files_take_and_costs_a_few_pages(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        draw = np.random.default_rng(0)
        for step in range(800):
            run.scalars([f"norm/{number}" for number in range(50)], draw.normal(size=50), step=step)
            if step % 4 == 0:
                run.histogram("grad", draw.normal(size=2000), step=step)
        assert run.flush_store(60)
        found = volume(run.path, 0)
        with closing(StoreReader(run.path)) as reader:
            (segment,) = reader.segments()
            steps = 0

            def count():
                nonlocal steps
                steps += 1
                return 0

            segment.connection.set_progress_handler(count, 1)
            assert newest(segment) == (found.step, found.time_ns)
            assert size_of(segment) == found.nbytes
        assert steps < 50_000  # virtual instructions of SQLite: far fewer than rows
    assert found.step == 799
    taken = sum(path.stat().st_size for path in segments(rank_folder(tmp_path / "run", 0)))
    assert found.nbytes == pytest.approx(taken, rel=0.15)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10GB", 10**10), ("1.5 GiB", 3 * 2**29), ("500000", 500_000), (7, 7), ("2 kb", 2000), ("1TB", 10**12)],
)
def test_sizes_as_people_write_them(text, expected):
    assert parse_bytes("limit", text) == expected


@pytest.mark.parametrize("size", ["", "GB", "ten", "10 XB", "-1GB", "1e9", 1.5, True, None, "0", 0, "9" * 400])
def test_other_sizes_are_refused_by_name(size):
    with pytest.raises(RunError, match=r"limit is .*; expected bytes"):
        parse_bytes("limit", size)


def test_sizes_are_shown_with_three_digits():
    shown = [format_bytes(size) for size in (0, 999, 1000, 1_900_000_000, 999_999, 12_345_678, 3e15)]
    assert shown == ["0 B", "999 B", "1 kB", "1.9 GB", "1 MB", "12.3 MB", "3e+03 TB"]


def test_a_limit_that_is_too_small_is_refused(tmp_path, monkeypatch):
    with pytest.raises(RunError, match=r"max_run_bytes is '1MB'.*at least 20 MB"):
        stepscope.open_run(tmp_path / "run", sinks=[], max_run_bytes="1MB")
    monkeypatch.setitem(os.environ, "STEPSCOPE_MAX_RUN_BYTES", "lots")
    with pytest.raises(RunError, match="max_run_bytes is 'lots'"):
        stepscope.open_run(tmp_path / "run", sinks=[])
    assert not (tmp_path / "run").exists()
