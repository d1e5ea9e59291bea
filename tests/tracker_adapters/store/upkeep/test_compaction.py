"""Compaction: a run becomes smaller, every name stays over its whole range, and no number changes."""

import os
import shutil
import sqlite3
import time
from collections import Counter
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from tracker_adapters.artifacts import Alert, File, Histogram, Image, Page, Text
from tracker_adapters.errors import RunBusyError
from tracker_adapters.store import layout
from tracker_adapters.store.blobs import adopt_file, read_blob, store_bytes
from tracker_adapters.store.layout import COMPACTION_LOCK, STORE, segment_name, segments
from tracker_adapters.store.ledger import Ledger, position_key
from tracker_adapters.store.lock import FileLock
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.check import Faults
from tracker_adapters.store.segments.segment import SegmentWriter
from tracker_adapters.store.upkeep import compaction
from tracker_adapters.store.upkeep.compaction import compact
from tracker_adapters.store.upkeep.retention import Sealed, cheapest, retain, run_bytes, sealed_segments
from tracker_adapters.store.upkeep.retention_plan import plan

STEPS = 4000
KEPT_SMALL = 0.5


def values(step):
    return [step * 0.001, step * -1.0]


def made_histogram(step):
    return Histogram.from_values("grad", values(step), step=step, time_ns=step)


def write(run_folder, steps, *, segment_bytes=190_000):
    """Writes some of each kind, in segments of ``segment_bytes``; returns the closed writer."""
    folder = layout.rank_folder(run_folder, 0)
    folder.mkdir(parents=True, exist_ok=True)
    writer = SegmentWriter(folder, lambda content: store_bytes(run_folder, content), segment_bytes=segment_bytes)
    for start in range(0, len(steps), 40):
        items = []
        for step in steps[start : start + 40]:
            items += [(name, step, step, float(np.sin(step / 9) * step)) for name in ("loss", "lr", "norm")]
            items.append(made_histogram(step))
            if step % 20 == 0:
                items.append(Image.from_array("input", np.full((4, 4), step % 255, np.uint8), step=step, layout="HW"))
            if step % 50 == 0:
                items += [Text(name="note", text=f"{step}", step=step), Alert(name="nan", message=f"{step}", step=step)]
        writer.commit(items)
    writer.close()
    return writer


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    write(folder, range(STEPS))
    assert len(segments(layout.rank_folder(folder, 0))) >= 6
    return folder


@pytest.fixture
def run(run_folder, written):
    return shutil.copytree(written, run_folder, dirs_exist_ok=True)


def sequence_numbers(run_folder, max_rows=700):
    """The numbers that a reader gets in order, and how many it is told are absent."""
    reader, after, absent, seqs = StoreReader(run_folder), 0, 0, []
    while batch := reader.read(after, max_rows=max_rows):
        assert batch.first_seq == after + 1
        mine = sorted([*batch.scalars.seqs.tolist(), *(seq for column in batch.columns() for seq in column.seqs)])
        assert len(mine) + batch.absent == batch.last_seq - after
        seqs, absent, after = seqs + mine, absent + batch.absent, batch.last_seq
    reader.close()
    assert after == StoreReader(run_folder).last_seq()
    return seqs, absent


@pytest.mark.slow
def test_every_name_is_readable_over_its_whole_range(run):
    before = RunRecord(run)
    names, ranges = before.names(), before.scalar_ranges("loss")
    full = before.scalars("loss")
    total = reduce(Histogram.merge, before.histograms("grad"))
    before.close()
    done = retain(run, int(run_bytes(run) * KEPT_SMALL))
    assert done.bytes_after == run_bytes(run) <= KEPT_SMALL * done.bytes_before
    record = RunRecord(run)
    assert record.names() == names
    thinned = record.scalars("loss")
    assert 100 < len(thinned) < len(full)
    assert set(zip(thinned.steps.tolist(), thinned.values.tolist(), strict=True)) <= set(
        zip(full.steps.tolist(), full.values.tolist(), strict=True)
    )
    assert (thinned.steps[0], thinned.steps[-1]) == (0, STEPS - 1)
    assert (thinned.values.min(), thinned.values.max()) == (full.values.min(), full.values.max())
    assert np.diff(thinned.steps).max() <= STEPS // 10
    histograms = record.histograms("grad")
    assert 10 < len(histograms) < STEPS
    assert histograms[-1].step == STEPS - 1
    merged = reduce(Histogram.merge, histograms)
    assert (merged.count, merged.min, merged.max) == (total.count, total.min, total.max)
    np.testing.assert_array_equal(merged.counts, total.counts)
    assert 10 < len(record.images("input")) < STEPS // 20
    assert [text.step for text in record.texts("note")] == list(range(0, STEPS, 50))
    assert [alert.step for alert in record.alerts()] == list(range(0, STEPS, 50))
    coarse = record.scalar_ranges("loss")
    assert coarse.span > ranges.span == 256
    assert (coarse.counts.sum(), coarse.min.min(), coarse.max.max()) == (STEPS, ranges.min.min(), ranges.max.max())


def test_numbers_stay_and_what_is_gone_is_counted(run):
    before, absent = sequence_numbers(run)
    assert (absent, before) == (0, list(range(1, len(before) + 1)))
    retain(run, int(run_bytes(run) * KEPT_SMALL))
    after, absent = sequence_numbers(run)
    assert set(after) < set(before)
    assert absent == len(before) - len(after) > 0


def test_compacting_again_and_again_leaves_every_name_over_its_range(run):
    sizes = []
    for share in (0.6, 0.5, 0.35, 0.25):
        retain(run, int(sum(path.stat().st_size for path in segments(layout.rank_folder(run, 0))) * share))
        sizes.append(run_bytes(run))
    assert sizes == sorted(sizes, reverse=True)
    record = RunRecord(run)
    assert {(info.name, info.count, info.last_step) for info in record.names() if info.kind == "scalar"} == {
        (name, STEPS, STEPS - 1) for name in ("loss", "lr", "norm")
    }
    series = record.scalars("norm")
    assert (series.steps[0], series.steps[-1]) == (0, STEPS - 1)
    assert sum(one.count for one in record.histograms("grad")) == 2 * STEPS


def test_the_oldest_come_first_and_the_newest_stay_whole(run):
    retain(run, int(run_bytes(run) * 0.8))
    levels = [segment_name(path).level for path in segments(layout.rank_folder(run, 0))]
    assert levels[0] > 0
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] == 0


def test_what_a_sink_has_not_taken_yet_comes_last(run):
    folder = layout.rank_folder(run, 0)
    second = sealed_segments(folder, True, {}, Faults(run))[1]
    with Ledger(folder) as ledger:
        position = ledger.register("local", "out")
        ledger.advance(position_key("local", "out"), position, seq=second.last_seq, token=b"", unshown={})
    retain(run, int(run_bytes(run) * 0.9))
    names = [segment_name(path) for path in segments(folder)]
    assert {name.level for name in names if name.last > 1} == {0}
    assert {name.level for name in names if name.last <= 1} != {0}
    retain(run, int(run_bytes(run) * 0.4))
    assert all(segment_name(path).level for path in segments(folder)[:-1])


@pytest.mark.parametrize(("level", "comes_first"), [(0, True), (4, True), (5, False), (9, False)])
def test_a_sink_that_stalls_for_long_does_not_cost_the_store_what_came_before(level, comes_first):
    taken = Sealed(layout.compacted_path(Path(), layout.SegmentName(0, 7, level)), 10**8, level, 10, is_taken=True)
    waiting = [Sealed(layout.segment_path(Path(), 8 + at), 10**8, 0, 20 + at, is_taken=False) for at in range(2)]
    choice = cheapest({Path(): [taken, *waiting]}, 10**8, set())
    assert choice is not None
    assert (taken.path in choice[2]) == comes_first
    assert choice[1] == (level + 1 if comes_first else 1)


def test_a_reader_that_has_a_segment_open_goes_on(run):
    record, reader = RunRecord(run), StoreReader(run)
    full = record.scalars("loss")
    assert reader.read(0) is not None
    retain(run, int(run_bytes(run) * KEPT_SMALL))
    batch = reader.read(0)
    assert batch is not None
    again = record.scalars("loss")
    assert set(again.steps.tolist()) < set(full.steps.tolist())
    assert RunRecord(run).scalars("loss").steps.tolist() == again.steps.tolist()
    reader.close()
    record.close()


def test_a_compaction_that_fails_changes_nothing(run, monkeypatch):
    folder = layout.rank_folder(run, 0)
    before, files = RunRecord(run).scalars("loss").values, set(folder.iterdir())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compaction.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        compact(run, segments(folder)[:2], 1, notes_bytes=10**6)
    monkeypatch.undo()
    assert set(folder.iterdir()) == files
    np.testing.assert_array_equal(RunRecord(run).scalars("loss").values, before)


def test_segments_that_a_cut_compaction_left_are_ignored_and_then_removed(run):
    folder = layout.rank_folder(run, 0)
    first, second = segments(folder)[:2]
    content = first.read_bytes(), second.read_bytes()
    made = compact(run, [first, second], 1, notes_bytes=10**6)
    expected = RunRecord(run).scalars("loss").steps.tolist()
    first.write_bytes(content[0])
    second.write_bytes(content[1])
    assert segments(folder)[0] == made
    assert RunRecord(run).scalars("loss").steps.tolist() == expected
    assert {info.name: info.count for info in RunRecord(run).names()}["grad"] == STEPS
    retain(run, 10**12)
    assert not first.exists()
    assert not second.exists()


def test_a_compacted_run_can_be_resumed(run):
    folder = layout.rank_folder(run, 0)
    last_seq = StoreReader(run).last_seq()
    retain(run, 1)
    assert StoreReader(run).last_seq() == last_seq
    assert len(segments(folder)) <= 2
    writer = write(run, range(STEPS - 100, STEPS + 100))
    assert (writer.attempt, StoreReader(run).last_seq()) == (2, writer.last_seq)
    seqs, absent = sequence_numbers(run)
    assert len(seqs) + absent == writer.last_seq > last_seq
    series = RunRecord(run).scalars("loss")
    assert series.steps[-200:].tolist() == list(range(STEPS - 100, STEPS + 100))
    retain(run, 1)
    series = RunRecord(run).scalars("loss")
    assert series.values.tolist() == [float(np.sin(step / 9) * step) for step in series.steps.tolist()]
    assert (np.diff(series.steps) > 0).all()


def test_an_attempt_that_was_compacted_still_replaces_the_steps_that_it_recorded_again(run_folder):
    folder = layout.rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    for attempt in range(2):
        writer = SegmentWriter(folder, lambda _: "", segment_bytes=1)
        writer.commit([("loss", step, step, float(attempt)) for step in range(attempt * 2000, 4000)])
        writer.commit([("end", attempt, 0, 0.0)])
        writer.close()
    paths = segments(folder)
    assert len(paths) == 5  # the first one is empty
    compact(run_folder, paths[3:4], 3, notes_bytes=0)
    series = RunRecord(run_folder).scalars("loss")
    assert (series.steps[:2000].tolist(), set(series.values[:2000])) == (list(range(2000)), {0.0})
    assert len(series) < 2800
    assert set(series.values[2000:].tolist()) == {1.0}


@pytest.mark.slow
def test_only_files_that_no_segment_refers_to_are_removed(run_folder, tmp_path):
    folder = layout.rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder, lambda content: store_bytes(run_folder, content), segment_bytes=60_000)

    def stored(cls, name, content, step):
        path = tmp_path / f"{step}.bin"
        path.write_bytes(content)
        made = cls(name=name, path=path, step=step)
        return replace(made, path=layout.blob_path(run_folder, adopt_file(run_folder, path, made.sha256, link=False)))

    for step in range(32):
        writer.commit(
            [
                stored(File, "same", b"x" * 4000, step),
                stored(File, "weights", bytes([step]) * 4000, step),
                stored(Page, f"page_{step}", bytes([step, 1]) * 2000, step),
            ]
        )
    writer.close()
    assert len(list((run_folder / "blobs").rglob("*.*"))) == 0
    retain(run_folder, int(run_bytes(run_folder) * 0.3), blob_grace_s=0.0)
    record = RunRecord(run_folder)
    files, pages = record.files(), record.pages()
    assert 0 < len(pages) < 20
    assert pages[0].step == 0
    assert Counter(file.name for file in files).keys() == {"same", "weights"}
    assert all(file.path.stat().st_size == 4000 for file in [*files, *pages])
    wanted = {file.path for file in [*files, *pages]}
    assert {path for path in (run_folder / "blobs").rglob("*") if path.is_file()} == wanted


def test_a_file_that_has_just_come_is_not_removed(run_folder, tmp_path):
    """Its row may not be committed yet, while somebody writes."""
    write(run_folder, range(200), segment_bytes=60_000)
    source = tmp_path / "page.pkl"
    source.write_bytes(b"page")
    os.utime(source, (0, 0))
    page = Page(name="page", path=source, step=0)
    adopt_file(run_folder, source, page.sha256, link=True)
    writes = FileLock(layout.rank_folder(run_folder, 0) / layout.WRITER_LOCK)
    assert writes.acquire()
    retain(run_folder, 1)
    assert layout.blob_path(run_folder, page.sha256).exists()
    writes.release()
    retain(run_folder, 1)
    assert not layout.blob_path(run_folder, page.sha256).exists()
    assert source.stat().st_mtime == 0


def test_only_one_process_compacts_a_run(run, monkeypatch):
    monkeypatch.setattr("tracker_adapters.store.upkeep.retention.LOCK_TIMEOUT_S", 0.05)
    lock = FileLock(run / STORE / COMPACTION_LOCK)
    assert lock.acquire()
    with pytest.raises(RunBusyError, match="another process compacts"):
        retain(run, 1)
    lock.release()


def test_a_limit_that_cannot_be_met_ends(run_folder):
    write(run_folder, range(100), segment_bytes=60_000)
    start = time.monotonic()
    done = retain(run_folder, 1)
    assert time.monotonic() - start < 20
    assert done.bytes_after > 1
    assert len(RunRecord(run_folder).scalars("loss")) >= 2


def test_what_would_not_become_smaller_is_not_thinned_again_and_again(run_folder):
    write(run_folder, range(400), segment_bytes=60_000)
    kept = []
    for _ in range(10):
        done = retain(run_folder, 1)
        kept.append(len(RunRecord(run_folder).scalars("loss")))
        assert done.bytes_after < done.bytes_before or not done.replaced
    assert not done.replaced
    assert kept[-1] == kept[-2] > 10


def test_pictures_beside_the_store_go_where_the_store_itself_cannot_become_smaller(run_folder):
    folder = layout.rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder, lambda content: store_bytes(run_folder, content))
    noise = np.random.default_rng(0).integers(0, 255, (16, 400, 400, 3), np.uint8)
    writer.commit([Image.from_array("input", picture, step=step, layout="HWC") for step, picture in enumerate(noise)])
    writer.close()
    limit = run_bytes(run_folder) // 3
    assert limit // 2 < retain(run_folder, limit).bytes_after <= limit


def test_a_damaged_segment_stays_with_its_files_and_its_neighbours_are_compacted(run):
    paths = segments(layout.rank_folder(run, 0))
    damaged = paths[2]
    connection = sqlite3.connect(damaged)
    connection.execute("UPDATE histogram SET data = x'00' WHERE seq = (SELECT max(seq) FROM histogram)")
    connection.execute("UPDATE artifact SET blob = 'damaged' WHERE seq = (SELECT max(seq) FROM artifact)")
    connection.commit()
    connection.close()
    content, beside = damaged.read_bytes(), store_bytes(run, b"what the damaged row may have meant")
    foretold = plan(run, int(run_bytes(run) * KEPT_SMALL))
    done = retain(run, int(run_bytes(run) * KEPT_SMALL), blob_grace_s=0.0)
    assert done.damaged.keys() == foretold.damaged.keys() == {damaged}
    assert done.made
    assert damaged.read_bytes() == content
    assert read_blob(run, beside)
    names = [segment_name(path) for path in segments(layout.rank_folder(run, 0))]
    assert (2, 2, 0) in names
    assert [one.first for one in names] == [0, *(one.last + 1 for one in names[:-1])]


def test_what_a_damaged_compacted_segment_stands_for_stays(run):
    folder = layout.rank_folder(run, 0)
    first = segments(folder)[0]
    made = layout.compacted_path(folder, layout.SegmentName(0, 1, 1))
    made.write_bytes(b"no database" * 1000)
    content = first.read_bytes()
    assert made in retain(run, 10**12).damaged
    assert first.read_bytes() == content
    made.unlink()
    assert RunRecord(run).scalars("loss").steps[0] == 0
