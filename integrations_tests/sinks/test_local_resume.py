"""Whose folder the local sink takes, how it goes back to a token, and what it does when it cannot be written."""

import json
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from local_folder import opened, snapshot
from readback_local import read_back
from tracker_adapters.artifacts import Scalar, Text
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkConfigError, SinkError, SinkUnavailable, StartOver
from tracker_adapters.sinks.local import LocalSink
from tracker_adapters.sinks.local.folder import STREAMS
from tracker_adapters.testing.contract import INFO, ODD_NAMES, TIME_NS, one_of_each, shown


@pytest.fixture
def target(tmp_path):
    return tmp_path / "local"


# Whose folder it is.


def test_a_folder_with_files_from_elsewhere_is_refused_and_left_as_it_is(target):
    target.mkdir()
    (target / "README.txt").write_text("mine")
    with pytest.raises(SinkConfigError, match=r"holds 'README\.txt'.*separate folder"), opened(target):
        pass
    assert snapshot(target) == {"README.txt": b"mine"}


def test_a_folder_of_another_run_is_refused(target):
    with opened(target) as sink:
        sink.write(Batch.of([Text(name="t", text="kept", step=0)]))
    before = snapshot(target)
    other = LocalSink(str(target))
    with pytest.raises(SinkConfigError, match="does not belong to run 'other'"):
        other.open(replace(INFO, id="other", name="other"), None)
    with pytest.raises(StartOver):
        other.open(replace(INFO, id="other", name="other"), b"{}")
    other.close()
    assert snapshot(target) == before


def test_of_runs_that_begin_at_the_same_moment_one_has_the_folder(target):
    runs = [replace(INFO, id=f"run {number}", name=f"run {number}") for number in range(8)]
    together = threading.Barrier(len(runs))

    def begin(info):
        sink = LocalSink(str(target))
        together.wait(60)
        try:
            sink.open(info, None)
        except SinkConfigError as error:
            assert "separate folder" in str(error)
            return ""
        finally:
            sink.close()
        return info.id

    with ThreadPoolExecutor(len(runs)) as threads:
        (winner,) = filter(None, threads.map(begin, runs))
    assert json.loads((target / "run_info.json").read_bytes())["id"] == winner


def test_starting_over_clears_the_runs_own_files_only(target, tmp_path):
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


@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_power_cut_anywhere_after_a_token_costs_nothing(data, tmp_path_factory):
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


def test_opening_at_a_token_restores_the_folder_to_the_byte(target, tmp_path):
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


def test_a_stream_that_was_cut_and_gets_nothing_new_counts_as_long_as_it_is(target, tmp_path):
    with opened(target) as sink:
        token = sink.flush()
        sink.write(Batch.of(one_of_each(tmp_path)))
    with opened(target, token) as sink:
        sink.write(Batch.of([Scalar(name="loss", value=1.0, step=0)]))
        token = sink.flush()
    assert json.loads(token) == {stream: (target / stream).stat().st_size for stream in STREAMS}
    with opened(target, token):
        pass


@pytest.mark.parametrize("stream", STREAMS)
def test_a_token_beyond_what_is_there_asks_to_start_over(target, tmp_path, stream):
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path)))
        token = sink.flush()
    os.truncate(target / stream, 1)
    with pytest.raises(StartOver, match=stream), opened(target, token):
        pass


def test_a_token_without_a_folder_asks_to_start_over(target):
    with opened(target) as sink:
        token = sink.flush()
    target.rename(target.with_name("elsewhere"))
    with pytest.raises(StartOver, match="holds nothing"), opened(target, token):
        pass


@pytest.mark.parametrize("token", [b"", b"{", b"\xff", b"[]", b'{"scalars.csv": "long"}', b'{"scalars.csv": null}'])
def test_a_token_that_says_nothing_asks_to_start_over(target, token):
    with opened(target):
        pass
    with pytest.raises(StartOver), opened(target, token):
        pass


def test_whatever_a_power_cut_must_not_take_is_put_on_the_disk(target, tmp_path, monkeypatch):
    """Contents and the folders that name them; ``run_info.json`` too, since a torn one makes the folder nobody's."""
    synced: set[int] = set()

    def fsync(descriptor):
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    with opened(target) as sink:
        sink.write(Batch.of(one_of_each(tmp_path)))
        sink.flush()
    written = {target, *target.rglob("*")} - {target / "README.txt"}
    assert [path for path in written if path.stat().st_ino not in synced] == []


# When it cannot be written.


def test_a_full_disk_is_reported_and_the_next_sink_carries_on(target, tmp_path):
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
                with pytest.raises(SinkUnavailable, match=r"cannot write to .*local"):
                    sink.write(batch)
                sink.close()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            sink = LocalSink(str(target))
            sink.open(INFO, token)
        sink.write(Batch.of([long_text, *scalars], first_seq=9))
        sink.flush()
        sink.close()
    wanted = [shown(artifact) for artifact in (*artifacts, long_text, *scalars)]
    assert sorted(map(repr, read_back({"target": str(target)}))) == sorted(map(repr, wanted))


def test_a_disk_that_stays_full_collects_no_unfinished_files(target):
    with opened(target) as sink:
        token = sink.flush()
    before = snapshot(target)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(SinkUnavailable), opened(target, token):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert set(snapshot(target)) == set(before)


def test_a_target_that_cannot_be_a_folder_is_a_sink_error(tmp_path):
    (tmp_path / "occupied").write_text("")
    with pytest.raises(SinkError, match=r"cannot write to .*occupied"), opened(tmp_path / "occupied"):
        pass


@pytest.mark.parametrize("target", ["", "http://host/x", "a\0b"])
def test_a_target_that_is_no_folder_is_refused_by_resolve(tmp_path, target):
    with pytest.raises(SinkConfigError, match="expected a local folder"):
        LocalSink.resolve({"target": target}, tmp_path)


def test_a_sink_that_is_not_open_says_so(target):
    with pytest.raises(SinkError, match="not open"):
        LocalSink(str(target)).write(Batch.of([]))


def open_below(folder):
    """How many files and folders below ``folder`` this process has open."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(FileNotFoundError):  # that of the list itself
            found += Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(folder)  # noqa: PTH115
    return found


def test_few_files_are_open_and_none_after_close(target, tmp_path):
    with opened(target) as sink:
        for number, name in enumerate(ODD_NAMES):
            sink.write(Batch.of(one_of_each(tmp_path, name=name), first_seq=1 + 9 * number))
            sink.flush()
        assert open_below(target) == len(STREAMS)
    assert open_below(target) == 0
