"""A worker between a real store and sinks that misbehave."""

import shutil
import threading
from contextlib import contextmanager

import pytest
from tracker_adapters.artifacts import Artifact, Histogram, RunInfo, Scalar, Text
from tracker_adapters.delivery import retry_policy
from tracker_adapters.delivery.idle import IdleClock
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.errors import StartOver
from tracker_adapters.store.held_folder import HeldFolder
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder
from tracker_adapters.store.ledger import Ledger, Position, position_key
from tracker_adapters.store.lock import FileLock
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.writing.run_store import RunStore
from tracker_adapters.testing import FailingSink, MemorySink, RefusingSink, StalledSink
from waiting import until

import stepscope


@pytest.fixture
def store(tmp_path):
    Manifest(RunInfo(id="worker", name="worker")).save(tmp_path)
    store = RunStore(tmp_path)
    yield store
    store.close()


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(retry_policy, "QUARANTINE_S", 0.01)
    monkeypatch.setattr(retry_policy, "FIRST_RETRY_S", 0.001)


def fill(store, names):
    for step, name in enumerate(names):
        store.put(Scalar(name=name, value=step / 2, step=step), 0)
    assert store.flush(60)


def worker_of(store, sink, *, until="caught_up", histograms=1000):
    target = str(getattr(sink, "target", ""))
    return DeliveryWorker(store.run_folder, 0, "memory", target, lambda: sink, until=until, histograms=histograms)


def position(store):
    with Ledger(rank_folder(store.run_folder, 0)) as ledger:
        return next(iter(ledger.positions().values()), Position("memory", ""))


@contextmanager
def running(worker):
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield thread
    finally:
        worker.stopping.set()
        thread.join(60)


class Described(MemorySink):
    """Takes changes of the description; with ``refuses`` it can only begin again."""

    refuses = False

    def describe(self, info):
        if self.refuses:
            self.refuses = False
            raise StartOver("the description stands at the beginning")
        self.info = info


@pytest.mark.parametrize("refuses", [False, True])
def test_a_sink_follows_what_the_run_says_of_itself(store, refuses):
    sink = Described()
    sink.refuses = refuses
    fill(store, ["loss"] * 3)
    with running(worker_of(store, sink, until="end")):
        until(lambda: position(store).seq == 3)
        Manifest(RunInfo(id="worker", name="worker", config={"lr": 0.1})).save(store.run_folder)
        until(lambda: sink.info.config == {"lr": 0.1})
        fill(store, ["loss"])
        until(lambda: position(store).seq == 4)
    assert len(sink.artifacts) == 4


def test_a_caught_up_lane_leaves_a_live_run_open(store):
    fill(store, ["loss"] * 10)
    sink = MemorySink()
    assert worker_of(store, sink).run() == "caught_up"
    assert (len(sink.artifacts), sink.status, sink.closed) == (10, None, True)
    assert (position(store).seq, position(store).delivered) == (10, 10)


def test_a_failure_that_passes_costs_nothing(store):
    fill(store, ["loss"] * 10)
    sink = FailingSink(failures=2)
    assert worker_of(store, sink).run() == "caught_up"
    assert len(sink.artifacts) == 10
    assert (position(store).failed, position(store).failures, position(store).error) == ({}, 0, "")


@pytest.mark.usefixtures("short_pauses")
def test_what_the_sink_refuses_is_skipped_and_counted_and_everything_else_arrives(store):
    names = ["loss"] * 300
    names[123] = names[124] = names[299] = "poison"
    fill(store, names)
    sink = RefusingSink({"poison"})
    assert worker_of(store, sink).run() == "caught_up"
    assert [one.step for one in sink.artifacts] == [step for step in range(300) if names[step] != "poison"]
    found = position(store)
    assert (found.delivered, found.failed, found.seq) == (297, {"refused": 3}, 300)


@pytest.mark.usefixtures("short_pauses")
def test_an_outage_is_no_refusal(store):
    fill(store, ["loss"] * 100)
    sink = RefusingSink(())
    sink.down = True
    with running(worker_of(store, sink, until="end")) as thread:
        until(lambda: len(sink.batches) > 40)
        assert position(store).state in {"quarantined", "retrying"}
        assert position(store).seq == 0
        sink.down = False
        until(lambda: position(store).seq == 100)
        store.close()
        thread.join(60)
    assert [one.step for one in sink.artifacts] == list(range(100))
    assert (position(store).failed, position(store).state) == ({}, "done")


@pytest.mark.usefixtures("short_pauses")
def test_the_only_one_of_its_kind_is_given_up_after_many_tries_only(store):
    artifacts: list[Artifact] = [Scalar(name="loss", value=0.0, step=step) for step in range(10)]
    artifacts.insert(5, Text(name="poison", text="poison", step=5))
    for artifact in artifacts:
        store.put(artifact, 0)
    assert store.flush(60)
    sink = RefusingSink({"poison"})
    with running(worker_of(store, sink, until="end")):
        until(lambda: position(store).seq == 11)
    assert position(store).failed == {"refused": 1}
    assert sum(count == 1 for count in sink.batches) > 10


@pytest.mark.slow
@pytest.mark.usefixtures("short_pauses")
def test_a_kind_that_is_always_refused_does_not_hold_up_the_others(store):
    for step in range(120):
        store.put(Scalar(name="loss", value=0.0, step=step), 0)
        if step % 20 == 0:
            store.put(Text(name="notes", text="refused", step=step), 0)
    assert store.flush(60)
    sink = RefusingSink({"notes"})
    with running(worker_of(store, sink, until="end")):
        until(lambda: position(store).seq == 126)
    assert [one.step for one in sink.artifacts] == list(range(120))
    assert position(store).failed == {"refused": 6}


def test_a_quarantined_sink_gets_one_more_try_when_the_run_ends(store, monkeypatch):
    monkeypatch.setattr(retry_policy, "FIRST_RETRY_S", 0.001)
    fill(store, ["loss"])
    sink = RefusingSink(())
    sink.down = True
    with running(worker_of(store, sink, until="end")) as thread:
        until(lambda: position(store).state == "quarantined")
        sink.down = False
        store.close()
        thread.join(60)
    assert (position(store).state, len(sink.artifacts)) == ("done", 1)


def test_a_process_that_died_on_a_batch_counts_as_its_failure(store):
    fill(store, ["loss"] * 10)
    sink = MemorySink()
    worker = worker_of(store, sink)
    with Ledger(rank_folder(store.run_folder, 0)) as ledger:
        ledger.register("memory", sink.target)
        for _ in range(2):
            ledger.attempt(worker.key, 10)
            with running(worker_of(store, FailingSink(target=sink.target))):
                until(lambda: position(store).failures >= 2)
    assert position(store).bisection
    assert worker_of(store, sink).run() == "caught_up"
    assert len(sink.artifacts) == 10


def test_a_second_delivery_of_the_same_sink_is_busy_or_waits(store):
    fill(store, ["loss"])
    sink = StalledSink()
    with running(worker_of(store, sink, until="end")):
        assert sink.entered.wait(60)
        second = DeliveryWorker(store.run_folder, 0, "memory", sink.target, MemorySink, wait_for_lease=False)
        assert second.run() == "busy"
        third = worker_of(store, MemorySink(target=sink.target), until="end")
        outcome: list[str] = []
        waiting = threading.Thread(target=lambda: outcome.append(third.run()), daemon=True)
        waiting.start()
        store.close()
        assert not outcome  # nothing says that the first one will come to the end
        sink.release.set()
        waiting.join(60)
        assert outcome == ["done"]


def test_a_run_that_was_deleted_before_delivery_began_is_given_up(store):
    fill(store, ["loss"])
    worker = worker_of(store, MemorySink(), until="end")
    shutil.rmtree(store.run_folder)
    assert worker.run() == "gave_up"
    assert not store.run_folder.exists()


def test_a_run_that_took_the_place_before_delivery_began_is_left_alone(store):
    fill(store, ["loss"])
    place = HeldFolder(rank_folder(store.run_folder, 0))
    sink = MemorySink()
    store.run_folder.rename(f"{store.run_folder}-elsewhere")
    with stepscope.open_run(store.run_folder, sinks=[]) as other:
        other.scalar("loss", 1.0, step=0)
    for identity, outcome in ((place.identity, "gave_up"), (None, "done")):
        worker = DeliveryWorker(
            store.run_folder, 0, "memory", sink.target, lambda: sink, until="end", folder_identity=identity
        )
        assert worker.run() == outcome
        assert bool(sink.artifacts) is (outcome == "done")


def test_a_run_that_takes_the_place_while_delivery_waits_for_its_turn_is_left_alone(store):
    folder = rank_folder(store.run_folder, 0)
    lease = FileLock(folder / f"{position_key('memory', 'one')}.lock")
    assert lease.acquire()
    identity = HeldFolder(folder).identity  # so that it makes no difference how far the thread is when the run moves
    worker = DeliveryWorker(store.run_folder, 0, "memory", "one", MemorySink, folder_identity=identity)
    outcome: list[str] = []
    waiting = threading.Thread(target=lambda: outcome.append(worker.run()), daemon=True)
    waiting.start()
    store.run_folder.rename(f"{store.run_folder}-elsewhere")
    with stepscope.open_run(store.run_folder, sinks=[]):
        waiting.join(60)
    lease.release()
    assert outcome == ["gave_up"]


def test_a_call_that_does_not_return_is_seen_and_recorded(store):
    fill(store, ["loss"] * 10)
    sink = StalledSink()
    worker = worker_of(store, sink)
    with running(worker):
        assert sink.entered.wait(60)
        until(lambda: worker.calling.seconds() > 0.05)
        worker.give_up_call()
        found = position(store)
        assert "did not return from write" in found.error
        assert (found.failures, '"rows": 5' in found.bisection) == (3, True)
        sink.release.set()


def test_histograms_are_merged_as_a_run_grows_and_all_are_counted(store):
    for step in range(40):
        store.put(Histogram.from_values("h", [float(step)], step=step), 0)
    assert store.flush(60)
    sink = MemorySink()
    assert worker_of(store, sink, histograms=10).run() == "caught_up"
    store.close()
    assert worker_of(store, sink, histograms=10).run() == "done"
    shown = [one for one in sink.artifacts if isinstance(one, Histogram)]
    assert [one.step for one in shown[:10]] == list(range(10))
    assert len(shown) < 30
    assert sum(one.count for one in shown) == 40
    assert (position(store).delivered, position(store).failed) == (40, {})


class SlowSink(MemorySink):
    """Waits in ``write`` for a tracker that answers after a while."""

    progressed = staticmethod(lambda: None)
    clock: IdleClock
    idle_after_answer = -1.0

    def write(self, batch):
        until(lambda: self.clock.seconds() >= 0.2)
        until(lambda: self._idle_after_answer() < 0.2)  # a machine may stop after the first
        return super().write(batch)

    def _idle_after_answer(self):
        self.progressed()
        self.idle_after_answer = self.clock.seconds()
        return self.idle_after_answer


def test_a_sink_that_reports_progress_is_not_taken_for_one_that_hangs(store):
    fill(store, ["loss"])
    sink = SlowSink()
    worker = worker_of(store, sink)
    sink.clock = worker.calling
    assert worker.run() == "caught_up"
    assert 0 <= sink.idle_after_answer < 0.2
    assert len(sink.artifacts) == 1


def test_a_run_that_took_this_ones_place_is_not_delivered(tmp_path):
    here, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    here.mkdir()
    Manifest(RunInfo(id="one", name="one")).save(here)
    store, sink = RunStore(here), MemorySink()
    fill(store, ["ours"] * 3)
    worker = worker_of(store, sink, until="end")
    with running(worker) as thread:
        until(lambda: len(sink.artifacts) == 3)
        here.rename(elsewhere)
        here.mkdir()
        Manifest(RunInfo(id="another", name="another")).save(here)
        another = RunStore(here)
        fill(another, ["theirs"] * 9)
        thread.join(60)
        assert not thread.is_alive()
    another.close()
    store.close()
    assert [artifact.name for artifact in sink.artifacts] == ["ours"] * 3
    assert not (rank_folder(here, 0) / DELIVERY_DATABASE).exists()
