"""Everything measured is emitted once, with its own step, in order, and nothing waits for a device."""

import math
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.testing import MemoryEmitter

from debuggers.errors import DebuggerConfigError
from debuggers.measurement import summary_stream
from debuggers.measurement.measure import measure, summarize
from debuggers.measurement.summary_stream import SummaryStream
from debuggers.measurement.summary_table import SummaryTable


class Lagging:
    """A measurement on a device that finishes when it is told to."""

    def __init__(self, tensors):
        self._pending = measure(tensors)
        self.finished = False
        self.waited = False

    def ready(self):
        return self.finished

    def resolve(self):
        self.waited = self.waited or not self.finished
        return self._pending.resolve()


def of_kind(emitter, kind):
    return [artifact for artifact in emitter.artifacts if artifact.kind == kind]


def test_a_step_gives_norms_the_total_norm_and_histograms():
    emitter, tables = MemoryEmitter(), []
    stream = SummaryStream("gradients", emitter, on_table=lambda *table: tables.append(table))
    stream.push(7, ("a", "b"), measure([torch.tensor([3.0, 4.0]), torch.tensor([12.0, 0.0])]))
    scalars = {artifact.name: artifact.value for artifact in of_kind(emitter, "scalar")}
    assert scalars == {"gradient_norm/a": 5.0, "gradient_norm/b": 12.0, "total_norm/gradients": 13.0}
    assert [artifact.name for artifact in of_kind(emitter, "histogram")] == ["gradients/a", "gradients/b"]
    assert {7} == {artifact.step for artifact in emitter.artifacts}
    assert len({artifact.time_ns for artifact in emitter.artifacts}) == 1
    [(step, names, table)] = tables
    assert (step, names, len(table)) == (7, ("a", "b"), 2)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_norms_of_what_is_not_finite_are_nan(bad):
    emitter = MemoryEmitter()
    stream = SummaryStream("gradients", emitter)
    stream.push(7, ("a", "b"), measure([torch.tensor([3.0, 4.0]), torch.tensor([12.0, bad])]))
    scalars = {artifact.name: artifact.value for artifact in of_kind(emitter, "scalar")}
    expected = {"gradient_norm/a": 5.0, "gradient_norm/b": math.nan, "total_norm/gradients": math.nan}
    assert scalars == pytest.approx(expected, nan_ok=True)
    assert [one.finite_count for one in of_kind(emitter, "histogram")] == [2, 1]


def test_what_a_device_still_computes_is_handed_on_later_in_order_with_its_own_step_and_time():
    emitter = MemoryEmitter()
    stream = SummaryStream("g", emitter)
    first, second = Lagging([torch.ones(4)]), Lagging([torch.ones(9)])
    stream.push(0, ("a",), first)
    second.finished = True
    stream.push(1, ("a",), second)
    assert emitter.artifacts == []
    first.finished = True
    stream.push(2, ("a",), Lagging([torch.ones(16)]))
    assert not first.waited
    assert [(a.step, a.value) for a in of_kind(emitter, "scalar") if "total" in a.name] == [(0, 2.0), (1, 3.0)]
    stream.drain()
    norms = [a for a in of_kind(emitter, "scalar") if "total" in a.name]
    assert [(a.step, a.value) for a in norms] == [(0, 2.0), (1, 3.0), (2, 4.0)]
    assert norms[0].time_ns < norms[1].time_ns < norms[2].time_ns
    assert [a.step for a in of_kind(emitter, "histogram")] == [0, 1, 2]


def test_histograms_cover_several_steps_and_the_rest_comes_with_drain():
    emitter = MemoryEmitter()
    stream = SummaryStream("g", emitter, histogram_every=3)
    for step in range(5):
        stream.push(10 * step, ("a",), measure([torch.full((2,), float(step))]))
    assert [(a.step, a.count) for a in of_kind(emitter, "histogram")] == [(20, 6)]
    stream.drain()
    stream.drain()
    assert [(a.step, a.count) for a in of_kind(emitter, "histogram")] == [(20, 6), (40, 4)]
    assert sum(a.name == "total_norm/g" for a in emitter.artifacts) == 5


@given(
    st.lists(st.lists(st.sampled_from("abcd"), unique=True), min_size=1, max_size=12), st.integers(1, 5), st.integers()
)
def test_names_may_come_and_go_and_every_value_is_in_exactly_one_histogram(name_sets, every, seed):
    emitter, generator = MemoryEmitter(), torch.Generator().manual_seed(seed % 2**32)
    stream = SummaryStream("g", emitter, histogram_every=every)
    pushed = {name: [] for name in "abcd"}
    for step, names in enumerate(name_sets):
        tensors = [torch.randn(5, generator=generator) for _ in names]
        for name, tensor in zip(names, tensors, strict=True):
            pushed[name].append(tensor)
        stream.push(step, names, measure(tensors))
    stream.drain()
    for name, tensors in pushed.items():
        found = [a for a in of_kind(emitter, "histogram") if a.name == f"g/{name}"]
        assert len(found) <= math.ceil(len(name_sets) / every)
        if not tensors:
            assert found == []
            continue
        [together] = summarize([torch.cat(tensors)])
        assert together.count == sum(a.count for a in found)
        counts = np.zeros(4096, np.int64)
        for histogram in found:
            counts[histogram.bins] += histogram.counts
        assert together.counts.tolist() == counts[together.bins].tolist()


@pytest.mark.parametrize("most_bins", [1, 100, 1 << 20])
def test_a_long_interval_has_the_bits_of_one_merge_a_step(monkeypatch, most_bins):
    monkeypatch.setattr(summary_stream, "_MAX_HELD", most_bins)
    emitter, generator = MemoryEmitter(), torch.Generator().manual_seed(0)
    steps = [[torch.randn(50, generator=generator) * size for size in (1e-3, 1e3)] for _ in range(25)]
    stream = SummaryStream("g", emitter, histogram_every=len(steps))
    for step, tensors in enumerate(steps):
        stream.push(step, ("a", "b"), measure(tensors))
    expected = reduce(SummaryTable.merge, [measure(tensors).resolve() for tensors in steps])
    for found, wanted in zip(of_kind(emitter, "histogram"), expected, strict=True):
        assert (found.step, found.count, found.mean, found.m2) == (24, wanted.count, wanted.mean, wanted.m2)
        assert (found.bins.tolist(), found.counts.tolist()) == (wanted.bins.tolist(), wanted.counts.tolist())


def test_scalars_alone():
    emitter = MemoryEmitter()
    stream = SummaryStream("g", emitter, histogram_every=None)
    stream.push(0, ("a",), measure([torch.ones(4)]))
    stream.drain()
    assert {"g_norm/a", "total_norm/g"} == {a.name for a in emitter.artifacts}


def test_without_an_emitter_the_tables_are_handed_on():
    tables = []
    stream = SummaryStream("g", None, on_table=lambda step, names, table: tables.append(step))
    stream.push(0, ("a",), measure([torch.ones(4)]))
    pending = Lagging([torch.ones(4)])
    stream.push(1, ("a",), pending)
    assert tables == [0]
    stream.drain()
    assert (tables, pending.waited) == ([0, 1], True)


def test_a_wrong_interval_is_refused():
    with pytest.raises(DebuggerConfigError, match="histogram_every is 0; expected an integer of at least 1, or None"):
        SummaryStream("g", None, histogram_every=0)
