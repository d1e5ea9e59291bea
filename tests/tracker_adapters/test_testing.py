"""The public test doubles do what their names say."""

import threading

import pytest
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkError
from tracker_adapters.sink import Sink
from tracker_adapters.testing import FailingSink, MemoryEmitter, MemorySink, StalledSink
from tracker_adapters.testing.samples import INFO, one_of_each, shown

ONE = Batch.of([Scalar(name="s", value=1.0, step=0, time_ns=1)])
TWO = Batch.of([Scalar(name="s", value=2.0, step=1, time_ns=2)], first_seq=2)


@pytest.mark.parametrize("cls", [MemorySink, FailingSink, StalledSink])
def test_each_is_a_sink(cls):
    sink = cls()
    assert isinstance(sink, Sink)
    assert cls.look({"target": sink.target}).startswith(sink.target)


def test_a_memory_sink_keeps_order_and_goes_back_to_its_token(tmp_path):
    artifacts = one_of_each(tmp_path)
    sink = MemorySink()
    sink.open(INFO, None)
    sink.write(Batch.of(artifacts))
    token = sink.flush()
    sink.write(Batch.of(artifacts, first_seq=9))
    sink.close()
    sink.open(INFO, token)
    assert [shown(kept) for kept in sink.artifacts] == [shown(artifact) for artifact in artifacts]
    sink.finish("finished")
    assert (sink.info, sink.status, sink.closed) == (INFO, "finished", False)
    sink.open(INFO, None)
    assert sink.artifacts == []


def test_a_failing_sink_fails_as_often_as_it_is_told():
    sink = FailingSink(failures=2)
    for count in (1, 2):
        with pytest.raises(SinkError, match=f"failing on purpose, {count} times"):
            sink.write(ONE)
    sink.write(ONE)
    assert (len(sink.artifacts), sink.failed) == (1, 2)


def test_a_failing_sink_without_a_number_always_fails():
    sink = FailingSink()
    for _ in range(5):
        with pytest.raises(SinkError):
            sink.write(ONE)
    assert sink.artifacts == []


def test_a_stalled_sink_stands_until_it_is_released():
    sink = StalledSink()
    thread = threading.Thread(target=lambda: (sink.write(ONE), sink.write(TWO)), daemon=True)
    thread.start()
    assert sink.entered.wait(60)
    assert sink.artifacts == []
    sink.release.set()
    thread.join(60)
    assert [artifact.step for artifact in sink.artifacts] == [0, 1]


def test_a_memory_emitter_shares_its_list_with_those_derived_from_it():
    emitter = MemoryEmitter()
    emitter.scoped("a").at(1).scalar("x", 1.0)
    emitter.scalar("y", 2.0, step=2)
    assert [(artifact.name, artifact.step) for artifact in emitter.artifacts] == [("a/x", 1), ("y", 2)]
