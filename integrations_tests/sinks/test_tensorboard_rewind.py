"""A run that is resumed at an earlier step, in TensorBoard: what it repeats takes the place of what was there."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from readback_tensorboard import read_back, read_with_python
from tensorboard_runs import carried, opened
from tracker_adapters.artifacts import Alert, Artifact, Histogram, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.testing.contract import TIME_NS

import stepscope


def scalars(name, steps, value):
    return [Scalar(name=name, value=value, step=step, time_ns=TIME_NS) for step in steps]


def points(folder, name):
    return [(seen.step, seen.value) for seen in read_back({"target": str(folder)}) if seen.name == name]


def deliver(folder, *attempts):
    """Delivers one batch an attempt; returns how many artifacts of each came too late."""
    sink, token = opened(folder), b""
    late = []
    for number, artifacts in enumerate(attempts, start=1):
        late.append(sink.write(Batch.of(artifacts, attempt=number)).get("late_step", 0))
        token = sink.flush()
        sink.close()
        sink = opened(folder, token)
    sink.finish("finished")
    sink.close()
    return late


def test_what_is_repeated_takes_the_place_of_what_was_there(tmp_path):
    late = deliver(tmp_path, scalars("loss", range(250), 1.0), scalars("loss", range(150, 160), 2.0))
    assert late == [0, 0]
    assert points(tmp_path, "loss") == [(step, 1.0) for step in range(150)] + [(step, 2.0) for step in range(150, 160)]
    assert len(list(tmp_path.iterdir())) == 1


def test_each_name_goes_back_on_its_own(tmp_path):
    """A validation every 100 steps stays until it is repeated; notes of each opening touch only themselves."""
    first = [*scalars("notes", [0], 1.0), *scalars("loss", range(250), 1.0), *scalars("val", [100, 200], 1.0)]
    second = [*scalars("notes", [0], 2.0), *scalars("loss", range(150, 190), 2.0)]
    assert deliver(tmp_path / "early", first, second) == [0, 0]
    assert points(tmp_path / "early", "val") == [(100, 1.0), (200, 1.0)]
    assert points(tmp_path / "early", "notes") == [(0, 2.0)]
    assert points(tmp_path / "early", "loss")[149:151] == [(149, 1.0), (150, 2.0)]
    third = [*second, *scalars("val", [200, 300], 2.0)]
    assert deliver(tmp_path / "late", first, third) == [0, 0]
    assert points(tmp_path / "late", "val") == [(100, 1.0), (200, 2.0), (300, 2.0)]


def test_a_name_keeps_its_tag_whatever_the_new_attempt_begins_with(tmp_path):
    histogram = Histogram.from_values("grad", [1.0], step=0, time_ns=TIME_NS)
    deliver(tmp_path, [*scalars("grad", [0], 1.0), histogram], [histogram, *scalars("grad", [0], 2.0)])
    assert set(read_with_python(tmp_path)) == {("scalars", "grad"), ("histograms", "grad (histogram)")}
    assert points(tmp_path, "grad")[0] == (0, 2.0)


def test_an_attempt_that_goes_on_where_the_last_one_ended_rewrites_nothing(tmp_path):
    sink = opened(tmp_path)
    sink.write(Batch.of(scalars("loss", range(10), 1.0)))
    before = list(tmp_path.iterdir())
    sink.write(Batch.of(scalars("loss", range(10, 20), 2.0), attempt=2))
    sink.flush()
    sink.close()
    assert list(tmp_path.iterdir()) == before
    assert [step for step, _ in points(tmp_path, "loss")] == list(range(20))


def test_steps_that_come_late_within_an_attempt_are_still_counted(tmp_path):
    again = [*scalars("loss", range(5, 9), 2.0), *scalars("loss", [5, 6, 9], 3.0)]
    assert deliver(tmp_path, scalars("loss", range(10), 1.0), again) == [0, 2]
    assert points(tmp_path, "loss")[5:] == [(5, 2.0), (6, 2.0), (7, 2.0), (8, 2.0), (9, 3.0)]


def test_the_new_file_sorts_behind_the_old_one_also_when_the_clock_was_put_back(tmp_path, monkeypatch):
    """A TensorBoard that runs looks for a file whose name sorts behind the one that it follows."""
    token = carried(tmp_path, Batch.of(scalars("loss", range(10), 1.0)))
    (first,) = tmp_path.iterdir()
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3600 * 10**9)
    carried(tmp_path, Batch.of(scalars("loss", [5], 2.0), attempt=2), token, status="finished")
    (second,) = tmp_path.iterdir()
    assert second.name > first.name
    assert points(tmp_path, "loss")[-1] == (5, 2.0)


@pytest.mark.parametrize("which", ["old", "new"])
def test_after_a_crash_either_token_finds_its_file(tmp_path, which):
    """The old file stays until delivery has stored the token of the new one."""
    sink = opened(tmp_path)
    sink.write(Batch.of(scalars("loss", range(10), 1.0)))
    old = sink.flush()
    again = Batch.of(scalars("loss", range(5, 8), 2.0), first_seq=11, attempt=2)
    sink.write(again)
    new = sink.flush()
    sink.close()
    assert len(list(tmp_path.iterdir())) == 2
    sink = opened(tmp_path, {"old": old, "new": new}[which])
    if which == "old":
        sink.write(again)
    sink.flush()
    sink.finish("finished")
    sink.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert points(tmp_path, "loss") == [(s, 1.0) for s in range(5)] + [(s, 2.0) for s in range(5, 8)]


@pytest.mark.filterwarnings("ignore:unclosed")
def test_a_resumed_run_shows_the_latest_attempt_as_the_record_does(tmp_path):
    for attempt, steps in enumerate([range(20), range(12, 25)], start=1):
        with stepscope.open_run(tmp_path / "run", sinks=["tensorboard"], resume=attempt > 1, delivery="thread") as run:
            for step in steps:
                run.scalar("loss", step + attempt / 4, step=step)
                run.histogram("grad", [step, attempt], step=step)
            assert run.flush(60)
    with stepscope.read_run(tmp_path / "run") as record:
        stored = record.scalars("loss")
    shown = points(tmp_path / "run", "loss")
    assert shown == list(zip(stored.steps.tolist(), stored.values.tolist(), strict=True))
    assert [step for step, _ in points(tmp_path / "run", "grad")] == list(range(25))


# Anything, with crashes.

End = Literal["stored", "died before the flush", "died before the token was stored"]


@dataclass(frozen=True)
class Delivery:
    """A batch of the attempt, and how its first try ends."""

    attempt_begins: bool
    artifacts: list[Artifact]
    end: End


kinds_and_names = st.sampled_from(
    [("scalar", "x"), ("histogram", "x"), ("alert", "x"), ("scalar", "y"), ("alert", "y")]
)


def artifact(kind_and_name, step, number):
    kind, name = kind_and_name
    match kind:
        case "scalar":
            return Scalar(name=name, value=float(number), step=step, time_ns=TIME_NS)
        case "histogram":
            return Histogram.from_values(name, [float(number), 1e6], step=step, time_ns=TIME_NS)
        case _:
            return Alert(name=name, message=str(number), step=step, time_ns=TIME_NS)


artifacts = st.builds(artifact, kinds_and_names, st.integers(0, 6), st.integers(0, 1000))
deliveries = st.builds(
    Delivery,
    st.booleans(),
    st.lists(artifacts, max_size=6),
    st.sampled_from(End.__args__),  # type: ignore[attr-defined]
)


def expected_after(plan):
    """What each name shows, by the rule that the sink states, and how many came late."""
    shown: dict[tuple[str, str], list[tuple[int, Artifact]]] = {}
    late, begun = 0, set()
    for delivery in plan:
        if delivery.attempt_begins:
            begun = set()
        entries: dict[tuple[str, str, int], bool] = {}
        for one in delivery.artifacts:
            key = (one.kind, one.name)
            if key not in begun:
                begun.add(key)
                shown[key] = [(step, old) for step, old in shown.get(key, []) if step < one.step]
            last = max((step for step, _ in shown[key]), default=-1)
            fits = one.step > last
            if one.kind == "alert":  # those of one step and batch share an entry
                fits = entries.setdefault((*key, one.step), one.step >= last)
            if fits:
                shown[key].append((one.step, one))
            late += not fits
    return shown, late


@settings(max_examples=examples(25))
@given(st.lists(deliveries, min_size=1, max_size=6))
def test_rewinds_and_crashes_at_any_moment_show_what_the_rule_says(plan):
    folder = Path(tempfile.mkdtemp())
    sink, token, attempt, late = opened(folder), None, 1, 0
    for delivery in plan:
        attempt += delivery.attempt_begins
        batch = Batch.of(delivery.artifacts, attempt=attempt)
        if delivery.end != "stored":
            sink.write(batch)
            if delivery.end == "died before the token was stored":
                sink.flush()
            sink.close()
            sink = opened(folder, token)
        late += sum(sink.write(batch).values())
        token = sink.flush()
    sink.finish("finished")
    sink.close()

    shown, expected_late = expected_after(plan)
    wanted = sorted(
        ("text" if kind == "alert" else kind, name, step, _value(one))
        for (kind, name), entries in shown.items()
        for step, one in entries
    )
    found = [
        (s.kind, s.name, s.step, s.value[1] if s.kind == "histogram" else s.value)
        for s in read_back({"target": str(folder)})
    ]
    assert sorted((k, n, s, v.split()[1] if isinstance(v, str) else v) for k, n, s, v in found) == wanted
    assert late == expected_late
    assert len(list(folder.iterdir())) == 1
    shutil.rmtree(folder)


def _value(one):
    match one:
        case Scalar():
            return one.value
        case Histogram():
            return one.min
        case Alert():
            return one.message
    raise AssertionError(one)
