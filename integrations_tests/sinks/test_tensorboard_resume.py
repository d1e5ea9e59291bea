"""The TensorBoard sink after crashes, full disks and damage: a resumed file is as if nothing had happened."""

import resource
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from readback_tensorboard import read_back
from tensorboard_runs import carried, opened
from tracker_adapters.artifacts import Alert, Artifact, Histogram, Image, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkUnavailable, StartOver
from tracker_adapters.sinks.tensorboard import TensorBoardSink
from tracker_adapters.testing.contract import INFO, TIME_NS

FOREIGN = "events.out.tfevents.1700000000.host.1.0"


def series(steps):
    return Batch.of([Scalar(name="loss", value=step / 4, step=step, time_ns=TIME_NS + step) for step in steps])


def event_file(folder):
    (path,) = (path for path in folder.iterdir() if path.name != FOREIGN)
    return path


def shown_steps(folder):
    return [s.step for s in read_back({"target": str(folder)})]


@pytest.mark.parametrize("tail", [b"\x18", bytes(4096), b"\xff" * 100], ids=["torn", "nul-filled", "noise"])
def test_a_damaged_tail_disappears(tmp_path, tail):
    sink = opened(tmp_path)
    sink.write(series([0, 1]))
    token = sink.flush()
    sink.write(series([2]))
    sink.close()
    with event_file(tmp_path).open("ab") as stream:
        stream.write(tail)
    carried(tmp_path, series([2, 3]), token)
    assert shown_steps(tmp_path) == [0, 1, 2, 3]


def test_a_resumed_sink_knows_the_last_steps(tmp_path):
    token = carried(tmp_path, series(range(10)))
    sink = opened(tmp_path, token)
    assert sink.write(series([5, 9, 10])) == {"late_step": 2}
    sink.flush()
    sink.close()
    assert shown_steps(tmp_path) == list(range(11))


def test_starting_over_removes_this_run_only(tmp_path):
    carried(tmp_path, series([0, 1, 2]))
    first = event_file(tmp_path)
    (tmp_path / FOREIGN).write_bytes(b"")
    carried(tmp_path, series([0]))
    assert event_file(tmp_path).name != first.name, "a running TensorBoard would not open the file again"
    assert (tmp_path / FOREIGN).exists()
    assert shown_steps(tmp_path) == [0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is gone"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "expected at least"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20] + b"x" + path.read_bytes()[-19:]), "is damaged"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "is damaged"),
    ],
    ids=["gone", "shorter", "flipped", "nul"],
)
def test_lost_output_asks_to_start_over(tmp_path, damage, message):
    assert callable(damage)
    token = carried(tmp_path, series([0, 1]))
    damage(event_file(tmp_path))
    sink = TensorBoardSink(target=str(tmp_path))
    with pytest.raises(StartOver, match=message):
        sink.open(INFO, token)
    sink.close()


def cut(content, place):
    return content[:place]


def filled_with_nul(content, place):
    return content[:place] + bytes(len(content) - place)


@pytest.mark.parametrize("damage", [cut, pytest.param(filled_with_nul, marks=pytest.mark.slow)])
@settings(max_examples=examples(15))
@given(data=st.data(), flushed=st.integers(0, 6))
def test_a_power_cut_at_any_place_costs_nothing(damage, data, flushed):
    """Before the token's place the sink asks to start over, behind it the tail goes; all is shown once in the end."""
    assert callable(damage)
    folder = Path(tempfile.mkdtemp())
    batches = [Batch.of(one_each(step), first_seq=1 + 3 * step) for step in range(7)]
    sink, token = opened(folder), None
    for batch in batches[:flushed]:
        sink.write(batch)
        token = sink.flush()
    for batch in batches[flushed:]:
        sink.write(batch)
    sink.close()
    content = event_file(folder).read_bytes()
    place = data.draw(st.integers(0, len(content)), label=f"place in a file of {len(content)} bytes")
    event_file(folder).write_bytes(damage(content, place))
    try:
        sink, left = opened(folder, token), batches[flushed:] if token else batches
    except StartOver:
        sink, left = opened(folder), batches
    for batch in left:
        assert sink.write(batch) == {}
    sink.flush()
    sink.close()
    seen = [(s.kind, s.step) for s in read_back({"target": str(folder)})]
    assert sorted(seen) == sorted((kind, step) for kind in ("histogram", "scalar", "text") for step in range(7))
    shutil.rmtree(folder)


def one_each(step):
    return [
        Scalar(name="loss", value=step / 4, step=step, time_ns=TIME_NS),
        Histogram.from_values("grad", [1.0, step], step=step, time_ns=TIME_NS),
        Alert(name="nan", message="fc1", step=step, time_ns=TIME_NS),
    ]


@contextmanager
def file_size_limit(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_reported_and_recovered_from(tmp_path):
    sink = opened(tmp_path)
    sink.write(series(range(10)))
    token = sink.flush()
    with file_size_limit(event_file(tmp_path).stat().st_size + 10):
        sink.write(series([10]))
        with pytest.raises(SinkUnavailable, match=r"cannot write to .*: File too large"):
            sink.flush()
        sink.close()
    carried(tmp_path, series([10]), token)
    assert shown_steps(tmp_path) == list(range(11))


@dataclass(frozen=True)
class Delivery:
    """A batch, and whether its first delivery dies before the flush, leaving ``tail`` behind the file."""

    artifacts: list[Artifact]
    dies: bool
    tail: bytes


names = st.sampled_from(["x", "x (alert)", "x (histogram)", "x (histogram 2)", 'y"'])
steps = st.integers(0, 6)
artifacts = st.one_of(
    st.builds(lambda name, step: Scalar(name=name, value=step / 8, step=step, time_ns=TIME_NS), names, steps),
    st.builds(lambda n, s: Histogram.from_values(n, [1.0, s], step=s, time_ns=TIME_NS), names, steps),
    st.builds(lambda n, s: Image.from_array(n, [[s % 2 == 0]], layout="HW", step=s, time_ns=TIME_NS), names, steps),
    st.builds(lambda n, s: Alert(name=n, message=str(s), step=s, time_ns=TIME_NS), names, steps),
)
deliveries = st.builds(Delivery, st.lists(artifacts, max_size=8), st.booleans(), st.binary(max_size=30))


@settings(max_examples=examples(40))
@given(st.lists(deliveries, min_size=1, max_size=5))
def test_crashes_leave_no_trace(plan):
    """Byte for byte: so a TensorBoard that is running meanwhile reads on as if nothing had happened."""
    root = Path(tempfile.mkdtemp())
    calm, troubled = root / "calm", root / "troubled"
    batches = [Batch.of(delivery.artifacts) for delivery in plan]
    sink = opened(calm)
    unshown = 0
    for batch in batches:
        unshown += sum(sink.write(batch).values())
        sink.flush()
    sink.close()

    token = None
    sink = opened(troubled)
    for delivery, batch in zip(plan, batches, strict=True):
        if delivery.dies:
            sink.write(batch)
            sink.close()
            with event_file(troubled).open("ab") as stream:
                stream.write(delivery.tail)
            sink = opened(troubled, token)
        sink.write(batch)
        token = sink.flush()
    sink.close()

    assert event_file(troubled).read_bytes() == event_file(calm).read_bytes()
    seen = read_back({"target": str(troubled)})
    assert len(seen) + unshown == sum(len(batch) for batch in batches)
    shutil.rmtree(root)
