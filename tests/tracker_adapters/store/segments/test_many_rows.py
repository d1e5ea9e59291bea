"""Some series of many, read in parts: the same rows however few they are, and wherever they lie."""

import numpy as np
import pytest
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.segments import opened_segment
from tracker_adapters.store.segments.many_rows import read_many
from tracker_adapters.store.segments.segment import SegmentWriter

SERIES, STEPS = 300, 40


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    Manifest(RunInfo(id="id", name="run")).save(folder)
    rank_folder(folder, 0).mkdir(parents=True)
    writer = SegmentWriter(rank_folder(folder, 0), lambda _: "", segment_bytes=10**9)
    for step in range(STEPS):
        writer.commit([(f"s{number:03d}", step, step, number + step / 100) for number in range(SERIES)])
    writer.close()
    return folder


@pytest.mark.parametrize(
    "wanted",
    [[7], [1, 150, 300], [*range(50, 150)], [*range(1, 300, 2)], [*range(1, 301)], None, []],
    ids=["one", "few", "neighbours", "every other", "each", "all", "none"],
)
def test_what_is_wanted_comes_by_number_and_nothing_else(run_folder, wanted):
    (path,) = segments(rank_folder(run_folder, 0))
    with opened_segment(path, run_folder) as segment:
        lost = []
        seqs, steps = (500, SERIES * STEPS), (3, 30)
        parts = [*read_many(segment, "scalar", seqs=seqs, steps=steps, series=wanted, on_damage=lost.append)]
        names = {number: int(name[1:]) for number, (_, name) in segment.series().items()}
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0)] * 6
    found, numbers, _, found_steps, _, values = columns
    expected = [
        (step * SERIES + names[number] + 1, number, step)
        for step in range(3, 31)
        for number in (sorted(names, key=names.get) if wanted is None else sorted(wanted, key=names.get))
        if step * SERIES + names[number] + 1 >= 500
    ]
    assert [*zip(found.tolist(), numbers.tolist(), found_steps.tolist(), strict=True)] == expected
    assert values.tolist() == [names[number] + step / 100 for _, number, step in expected]
    assert not any(lost)
