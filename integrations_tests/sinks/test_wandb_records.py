"""The records that the W&B sink encodes itself: W&B's own protobuf classes read them as they were meant."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import ScalarColumns
from tracker_adapters.sinks.wandb import records
from tracker_adapters.sinks.wandb.keys import Keys, escape
from tracker_adapters.sinks.wandb.scalars import ScalarEncoder
from wandb.proto import wandb_internal_pb2

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)


def parsed(content: bytes) -> Any:
    record = wandb_internal_pb2.Record.FromString(content)
    message = getattr(record, record.WhichOneof("record_type"))
    assert not len(UnknownFieldSet(record))
    assert not len(UnknownFieldSet(message))
    return record


def row_of(record: Any) -> dict[str, Any]:
    return {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1))
def test_numbers(number: int) -> None:
    assert parsed(records.history(number, b"")).history.step.num == number


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "grad/fc1", "é" * 70, "x" * 300]), st.integers(0, 3), st.floats()),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 10**12),
)
def test_scalars_come_back_to_the_last_bit(rows: list[tuple[str, int, float]], first_row: int) -> None:
    scalars = [
        Scalar(name=name, step=step, value=value, time_ns=10**18 + n) for n, (name, step, value) in enumerate(rows)
    ]
    columns = ScalarColumns.of(list(enumerate(scalars, start=1)))
    encoded = ScalarEncoder(Keys(), start_ns=10**18 - 10**9).encode(columns, first_row)
    found: list[tuple[str, int, float]] = []
    for number, record in enumerate(map(parsed, encoded.records), start=first_row):
        row = row_of(record)
        assert (row["_step"], record.history.step.num) == (number, number)
        assert row["_runtime"] == pytest.approx(1.0, abs=1e-3)
        found += [
            (key, row["step"], value) for key, value in row.items() if key not in ("step", "_step") and key[0] != "_"
        ]
    assert [row[:2] for row in found] == [(escape(name), step) for name, step, _ in rows]
    assert [str(value) for *_, value in found] == [str(float(value)) for *_, value in rows]
    last = {name: value for name, _, value in rows}
    summary = parsed(records.summary(b"".join(encoded.last.values()))).summary
    shown = {item.nested_key[0]: json.loads(item.value_json) for item in summary.update}
    assert {key: str(shown[escape(key)]) for key in last} == {key: str(value) for key, value in last.items()}


@settings(deadline=None)
@given(NAMES, st.text(max_size=300), st.lists(NAMES, max_size=3))
def test_the_run(name: str, notes: str, tags: list[str]) -> None:
    place = {"id": "r", "entity": None, "project": "p", "group": "g", "name": name, "notes": notes}
    run = parsed(records.run(place, {"lr": 0.1, name: {"nested": [1, None]}}, tags, 1_700_000_000_000_000_001)).run
    assert (run.run_id, run.entity, run.project, run.run_group, run.notes) == ("r", "", "p", "g", notes)
    assert (run.display_name, list(run.tags)) == (name, tags)
    assert run.start_time.ToNanoseconds() == 1_700_000_000_000_000_001
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config == {"lr": 0.1} | {name: {"nested": [1, None]}}


def test_nested_values_are_kept_leaf_by_leaf() -> None:
    record = parsed(records.summary(records.value_items({"_wandb": {"runtime": 7}, "h": {"bins": [0.0, math.inf]}})))
    assert [(list(item.nested_key), item.value_json) for item in record.summary.update] == [
        (["_wandb", "runtime"], "7"),
        (["h", "bins"], "[0.0,Infinity]"),
    ]


def test_the_other_records() -> None:
    assert parsed(records.run_exit(1, 300)).exit.exit_code == 1
    assert parsed(records.run_exit(0, 0)).HasField("exit")
    metric = parsed(records.step_metric("step")).metric
    assert (metric.glob_name, metric.step_metric, metric.options.step_sync, metric.options.defined) == (
        "*", "step", True, True
    )  # fmt: skip
    assert parsed(records.header("stepscope")).header.version_info.producer == "stepscope"
    assert [file.path for file in parsed(records.files(["media/a.png"])).files.files] == ["media/a.png"]
