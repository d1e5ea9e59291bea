"""The records that the W&B sink encodes itself: W&B's own protobuf classes read them as they were meant."""

import json
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram, RunInfo, Scalar
from tracker_adapters.batch import HistogramRows, ScalarColumns
from tracker_adapters.formats.protobuf import varint
from tracker_adapters.sinks.wandb import records
from tracker_adapters.sinks.wandb.histograms import HistogramEncoder
from tracker_adapters.sinks.wandb.history import Encoded, HistoryEncoder, ItemHeads
from tracker_adapters.sinks.wandb.keys import Keys, escape
from tracker_adapters.sinks.wandb.rows import artifact_rows
from tracker_adapters.sinks.wandb.scalars import ScalarEncoder
from wandb.proto import wandb_internal_pb2

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)


def parsed(content):
    record = wandb_internal_pb2.Record.FromString(content)
    message = getattr(record, record.WhichOneof("record_type"))
    assert not len(UnknownFieldSet(record))
    assert not len(UnknownFieldSet(message))
    return record


def row_of(record):
    return {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}


def encoded_at_once(histograms, keys, first_row=0):
    encoder = HistogramEncoder(keys, HistoryEncoder(start_ns=10**18))
    parts = list(encoder.encode(HistogramRows.of(histograms), first_row))
    last = {key: item for part in parts for key, item in part.last.items()}
    return Encoded([content for part in parts for content in part.records], last)


def nested(items):
    found: dict[str, Any] = {}
    for item in items:
        *path, last = item.nested_key
        place = found
        for key in path:
            place = place.setdefault(key, {})
        place[last] = json.loads(item.value_json)
    return found


@given(st.integers(0, 2**63 - 1))
def test_numbers(number):
    assert parsed(records.history(number, b"")).history.step.num == number


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "grad/fc1", "é" * 70, "x" * 300]), st.integers(0, 3), st.floats()),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 10**12),
)
def test_scalars_come_back_to_the_last_bit(rows, first_row):
    scalars = [
        Scalar(name=name, step=step, value=value, time_ns=10**18 + n * 1_234_000)
        for n, (name, step, value) in enumerate(rows)
    ]
    columns = ScalarColumns.of(list(enumerate(scalars, start=1)))
    encoded = ScalarEncoder(Keys(), HistoryEncoder(start_ns=10**18 - 10**9)).encode(columns, first_row)
    found: list[tuple[str, int, float]] = []
    for number, record in enumerate(map(parsed, encoded.records), start=first_row):
        row = row_of(record)
        assert (row["_step"], record.history.step.num) == (number, number)
        assert row["_runtime"] == round(1 + len(found) * 0.001234, 6)
        found += [
            (key, row["step"], value) for key, value in row.items() if key not in ("step", "_step") and key[0] != "_"
        ]
    assert [row[:2] for row in found] == [(escape(name), step) for name, step, _ in rows]
    assert [str(value) for *_, value in found] == [str(float(value)) for *_, value in rows]
    last = {name: value for name, _, value in rows}
    summary = parsed(records.summary(b"".join(encoded.last.values()))).summary
    shown = {item.nested_key[0]: json.loads(item.value_json) for item in summary.update}
    assert {key: str(shown[escape(key)]) for key in last} == {key: str(value) for key, value in last.items()}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "grad/fc1", "é" * 70, "x" * 300]),
            st.integers(0, 3),
            st.lists(st.floats() | st.floats(-1, 1) | st.sampled_from([0.0, 1e-45, -1e300, 1.7976931348623157e308])),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 10**12),
)
def test_histograms_are_the_rows_of_single_ones(given_rows, first_row):
    histograms = [
        Histogram.from_values(name, values, step=step, time_ns=10**18 + n)
        for n, (name, step, values) in enumerate(given_rows)
    ]
    keys = Keys({"a": "scalar"})
    encoded = encoded_at_once(histograms, keys, first_row)

    expected = [row for histogram in histograms for row in artifact_rows(histogram, keys)]
    runtimes = [round(row["_timestamp"] - 10**9, 6) for row in expected]
    full = [
        row | {"_runtime": pytest.approx(runtime, abs=1e-6), "_step": number}
        for number, (row, runtime) in enumerate(zip(expected, runtimes, strict=True), start=first_row)
    ]
    assert [nested(record.history.item) for record in map(parsed, encoded.records)] == full
    assert [parsed(content).history.step.num for content in encoded.records] == [row["_step"] for row in full]
    summary = parsed(records.summary(b"".join(encoded.last.values()))).summary
    last = {key: value for row in full for key, value in row.items()}
    assert nested(summary.update) == last


def test_a_histogram_of_many_bins_is_cut_to_what_wandb_takes():
    wide = Histogram.from_values("h", np.geomspace(1e-30, 1e30, 20_000), step=0, time_ns=10**18)
    [record] = encoded_at_once([wide], Keys()).records
    shown = nested(parsed(record).history.item)["h"]
    edges, counts = wide.edges(512)
    assert (shown["values"], shown["bins"]) == (counts.tolist(), edges.tolist())
    assert len(counts) == 512


def test_many_histograms_are_counted_on_and_the_last_of_each_name_is_its_summary():
    histograms = [Histogram.from_values(f"h{n % 3}", [n, math.nan], step=n, time_ns=10**18) for n in range(150)]
    encoded = encoded_at_once(histograms, Keys(), 1000)
    rows = [nested(parsed(content).history.item) for content in encoded.records]
    assert [(row["_step"], row["step"]) for row in rows] == [(1000 + n, n) for n in range(150)]
    assert [row[f"h{n % 3}"]["bins"][-1] for n, row in enumerate(rows)] == list(range(150))
    summary = nested(parsed(records.summary(b"".join(encoded.last.values()))).summary.update)
    assert summary == {key: value for row in rows[-3:] for key, value in row.items()}


@pytest.mark.parametrize("known", [{}, {"min": 0.0}, {"max": 9.0}], ids=["neither", "smallest", "largest"])
def test_extremes_that_an_artifact_lacks_are_nan(known):
    lacking = Histogram(name="h", step=0, time_ns=10**18, bins=np.array([1000]), counts=np.array([3]), count=3, **known)
    [record] = encoded_at_once([lacking], Keys()).records
    assert repr(nested(parsed(record).history.item)["h"]) == repr(next(artifact_rows(lacking, Keys()))["h"])


def test_rows_around_the_sizes_that_have_another_length_prefix_come_back():
    for size in (*range(60, 140), *range(4000, 4100), 20_000):
        item = ItemHeads("k")[size] + json.dumps("x" * (size - 2)).encode()
        encoded = HistoryEncoder(0).encode(np.array([3]), np.array([10**18]), [[item]], 5)
        [row] = [row_of(parsed(content)) for content in encoded.records]
        assert (row["step"], row["_step"], len(row["k"])) == (3, 5, size - 2)


def test_heads_are_kept_for_numbers_alone():
    """Each histogram has another size; a run of weeks would keep one for each of thousands."""
    heads = ItemHeads("h", "bins")
    for size in range(1, 5000):
        text = b"1" * size
        item = parsed(b"\x12" + varint(len(heads[size]) + size) + heads[size] + text).history.item[0]
        assert (list(item.nested_key), item.value_json.encode()) == (["h", "bins"], text)
    assert len(heads) < 100


@pytest.mark.slow
def test_a_batch_of_many_histograms_takes_little_memory():
    values = np.geomspace(1e-6, 1e6, 1000)
    rows = HistogramRows.of([Histogram.from_values("h", values, step=step, time_ns=10**18) for step in range(3000)])
    encoder = HistogramEncoder(Keys(), HistoryEncoder(start_ns=10**18))
    tracemalloc.start()
    try:
        size = sum(len(content) for encoded in encoder.encode(rows, 0) for content in encoded.records)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 4


@given(NAMES, st.text(max_size=300), st.lists(NAMES, max_size=3))
def test_the_run(name, notes, tags):
    place = {"id": "r", "entity": None, "project": "p", "group": "g", "name": name, "notes": notes}
    config = {"lr": 0.1, name: {"nested": [1, None]}}
    about = RunInfo(id="r", name="r", config=config, environment={"commit": "0123abc", "host": "node1"})
    run = parsed(records.run(place, about, tags, 1_700_000_000_000_000_001)).run
    assert (run.run_id, run.entity, run.project, run.run_group, run.notes) == ("r", "", "p", "g", notes)
    assert (run.display_name, list(run.tags)) == (name, tags)
    assert run.start_time.ToNanoseconds() == 1_700_000_000_000_000_001
    assert (run.git.commit, run.host) == ("0123abc", "node1")
    found = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert found == about.config


def test_nested_values_are_kept_leaf_by_leaf():
    record = parsed(records.summary(records.value_items({"_wandb": {"runtime": 7}, "h": {"bins": [0.0, math.inf]}})))
    assert [(list(item.nested_key), item.value_json) for item in record.summary.update] == [
        (["_wandb", "runtime"], "7"),
        (["h", "bins"], "[0.0,Infinity]"),
    ]


def test_the_other_records():
    assert parsed(records.run_exit(1, 300)).exit.exit_code == 1
    assert parsed(records.run_exit(0, 0)).HasField("exit")
    metric = parsed(records.step_metric("step")).metric
    assert (metric.glob_name, metric.step_metric, metric.options.step_sync, metric.options.defined) == (
        "*", "step", True, True
    )  # fmt: skip
    assert parsed(records.header("stepscope")).header.version_info.producer == "stepscope"
    assert [file.path for file in parsed(records.files(["media/a.png"])).files.files] == ["media/a.png"]
