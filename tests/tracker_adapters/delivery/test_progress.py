"""A sink that reports progress is not taken for one that hangs, however long its call takes."""

from __future__ import annotations

from pathlib import Path

from tracker_adapters.artifacts import RunInfo, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.delivery.idle import IdleClock
from tracker_adapters.delivery.lane import Lane
from tracker_adapters.sink import Unshown
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.writing.run_store import RunStore
from tracker_adapters.testing import MemorySink
from waiting import until


class SlowSink(MemorySink):
    """Waits in ``write`` for a tracker that answers after a while."""

    progressed = staticmethod(lambda: None)
    clock: IdleClock
    idle_after_answer = -1.0

    def write(self, batch: Batch) -> Unshown:
        until(lambda: self.clock.seconds() >= 0.2)
        self.progressed()
        self.idle_after_answer = self.clock.seconds()
        return super().write(batch)


def test_the_lane_hears_of_progress_within_a_call(tmp_path: Path) -> None:
    Manifest(RunInfo(id="lane", name="lane")).save(tmp_path)
    store = RunStore(tmp_path)
    store.put(Scalar(name="loss", value=1.0, step=0), 0)
    assert store.flush(60)
    sink = SlowSink()
    lane = Lane(tmp_path, 0, "memory", sink.target, lambda: sink, until="caught_up")
    sink.clock = lane.calling
    assert lane.run() == "caught_up"
    store.close()
    assert 0 <= sink.idle_after_answer < 0.2
    assert len(sink.artifacts) == 1


def test_a_restarted_clock_counts_from_there() -> None:
    clock = IdleClock()
    clock.start("write")
    until(lambda: clock.seconds() >= 0.1)
    clock.restart()
    assert clock.seconds() < 0.1
    clock.stop()
    assert clock.seconds() == 0.0
