"""The plan of a compaction: what is done afterwards, foretold without touching anything."""

import hashlib
import shutil

import numpy as np
import pytest
from tracker_adapters.artifacts import Histogram, Image
from tracker_adapters.store.layout import rank_folder, segment_name, segments
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.store.segments.segment import SegmentWriter
from tracker_adapters.store.upkeep.retention import retain, run_bytes
from tracker_adapters.store.upkeep.retention_plan import plan
from tracker_adapters.store.writing.run_store import RunStore

import stepscope


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    run = tmp_path_factory.mktemp("written")
    folder = rank_folder(run, 0)
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder, lambda _: "", segment_bytes=400_000)
    values = np.random.default_rng(0).normal(size=2000)
    for step in range(0, 3000, 10):
        writer.commit([Histogram.from_values("grad", values, step=at) for at in range(step, step + 10)])
    writer.close()
    return run


@pytest.fixture
def run(run_folder, written):
    return shutil.copytree(written, run_folder, dirs_exist_ok=True)


def content(run):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in segments(rank_folder(run, 0))}


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.8, 0.2))])
def test_it_foretells_what_is_done_and_changes_nothing(run, share):
    before, limit = content(run), int(run_bytes(run) * share)
    foretold = plan(run, limit)
    assert content(run) == before
    assert foretold.bytes_after <= limit
    done = retain(run, limit)
    assert foretold.bytes_after == pytest.approx(done.bytes_after, rel=0.35)
    names = [segment_name(path) for path in segments(rank_folder(run, 0))]
    compacted = [name for name in names if name.level]
    assert compacted
    assert abs(max(one.level for one in foretold.made) - max(name.level for name in compacted)) <= 1
    assert [one.first for one in foretold.made] == sorted(one.first for one in foretold.made)
    assert foretold.kept + sum(one.last - one.first + 1 for one in foretold.made) == len(before)


def test_pictures_beside_the_store_count(tmp_path):
    draw = np.random.default_rng(0)
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    store = RunStore(tmp_path / "run", resume=True, segment_bytes=2_000_000)
    for step in range(60):
        noise = draw.integers(0, 255, (300, 300, 3), np.uint8)
        store.put(Image.from_array("input", noise, step=step, layout="HWC"), 0)
        assert store.flush(60)
    assert store.close(60)
    run = tmp_path / "run"
    limit = run_bytes(run) // 3
    foretold = plan(run, limit)
    assert foretold.bytes_after <= limit
    assert max(one.bytes_before for one in foretold.made) > 2_000_000
    assert foretold.bytes_after == pytest.approx(retain(run, limit).bytes_after, rel=0.35)


def test_what_fits_needs_nothing(run):
    found = plan(run, run_bytes(run))
    assert (found.made, found.bytes_after, found.kept) == ((), run_bytes(run), len(segments(rank_folder(run, 0))))


def test_a_limit_that_cannot_be_met_ends_and_says_what_a_sink_lacks(run):
    with Ledger(rank_folder(run, 0)) as ledger:
        ledger.register("local", "out")
    found = plan(run, 1)
    assert found.bytes_after > 1
    assert found.made
    assert not any(one.is_taken for one in found.made)


def test_what_is_as_small_as_it_gets_is_not_planned(run):
    while retain(run, 1).replaced:
        pass
    found = plan(run, 1)
    assert (found.made, found.bytes_after) == ((), run_bytes(run))
