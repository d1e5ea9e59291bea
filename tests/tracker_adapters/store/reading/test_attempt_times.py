"""When the attempts of a run began and ended, from its rows."""

from itertools import pairwise

from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.segments.segment import SegmentWriter

import stepscope


def test_each_attempt_has_its_beginning_its_last_artifact_and_their_number(tmp_path):
    folder = tmp_path / "run"
    for attempt, count in enumerate((40, 0, 5)):
        with stepscope.open_run(folder, sinks=[], resume=attempt > 0) as run:
            for step in range(count):
                run.scalar("loss", 1.0, step=step)
            if count == 40:
                run.text("note", "the last one", step=0)
    with stepscope.read_run(folder) as record:
        found = record.attempts()
        assert [(one.attempt, one.stored) for one in found] == [(1, 41), (2, 0), (3, 5)]
        assert found[0].last_ns == record.texts("note")[0].time_ns
        assert found[1].last_ns is None
        assert found[2].last_ns == record.scalars("loss").times_ns[4]
        assert all(one.began_ns < other.began_ns for one, other in pairwise(found))
        assert record.last_number() == 46


def test_an_attempt_over_several_segments_is_one(run_folder, three_segments):
    with stepscope.read_run(run_folder) as record:
        assert [(one.attempt, one.stored, one.last_ns) for one in record.attempts()] == [(1, 6000, 5999)]
        assert record.damage() == []


def test_a_segment_that_cannot_be_opened_is_named(run_folder, three_segments):
    three_segments[1].write_bytes(b"no database" * 1000)
    with stepscope.read_run(run_folder) as record:
        assert [one.stored for one in record.attempts()] == [6000]
        assert three_segments[1].name in record.damage()[0]


def test_a_rank_without_artifacts_has_no_end(run_folder):
    folder = rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    SegmentWriter(folder, lambda _: "").close()
    with stepscope.read_run(run_folder) as record:
        assert [(one.stored, one.last_ns) for one in record.attempts()] == [(0, None)]
