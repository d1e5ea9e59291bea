"""Batches: every artifact once, under its number, in columns."""

import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Alert, Scalar, Text
from tracker_adapters.batch import Batch, Column, ScalarColumns
from tracker_adapters.testing import MemorySink
from tracker_adapters.testing.samples import TIME_NS, one_of_each

ARTIFACTS = st.lists(
    st.one_of(
        st.builds(
            Scalar,
            name=st.sampled_from("ab"),
            step=st.integers(0, 2**63 - 1),
            time_ns=st.integers(0, 2**63 - 1),
            value=st.floats(allow_nan=False),
        ),
        st.builds(Text, name=st.just("t"), step=st.integers(0, 9), text=st.text(max_size=3)),
        st.builds(Alert, name=st.just("a"), step=st.integers(0, 9), message=st.text(max_size=3)),
    )
)


@given(ARTIFACTS, st.integers(1, 2**40))
def test_every_artifact_comes_back_in_its_order(artifacts, first_seq):
    batch = Batch.of(artifacts, first_seq=first_seq)
    assert len(batch) == len(artifacts) == batch.last_seq - batch.first_seq + 1
    numbers = [*batch.scalars.seqs.tolist(), *(seq for column in batch.columns() for seq in column.seqs)]
    assert sorted(numbers) == list(range(first_seq, first_seq + len(artifacts)))
    sink = MemorySink()
    sink.write(batch)
    assert sink.artifacts == artifacts


def test_each_kind_has_its_column(tmp_path):
    artifacts = one_of_each(tmp_path)
    batch = Batch.of(artifacts, first_seq=11, attempt=2)
    assert (batch.first_seq, batch.last_seq, batch.attempt) == (11, 10 + len(artifacts), 2)
    columns: dict[str, Column[Any]] = {
        "histogram": batch.histograms, "image": batch.images, "text": batch.texts, "alert": batch.alerts,
        "table": batch.tables, "page": batch.pages, "file": batch.files, "curve": batch.curves,
    }  # fmt: skip
    for seq, artifact in enumerate(artifacts[1:], start=12):
        column = columns[artifact.kind]
        assert (list(column.seqs), list(column.artifacts)) == ([seq], [artifact])
    assert batch.columns() == list(columns.values())


def test_scalars_are_columns_of_plain_types():
    scalars = Batch.of(
        [Scalar(name=f"s{i}", value=i / 4, step=2**63 - 1 - i, time_ns=TIME_NS) for i in range(3)]
    ).scalars
    assert [column.dtype for column in (scalars.seqs, scalars.steps, scalars.times_ns, scalars.values)] == [
        *[np.int64] * 3,
        np.float64,
    ]
    assert scalars.names == ["s0", "s1", "s2"]
    assert scalars.values.tolist() == [0.0, 0.25, 0.5]
    assert scalars.steps.tolist() == [2**63 - 1, 2**63 - 2, 2**63 - 3]


def test_an_empty_batch_is_empty():
    batch = Batch.of([], first_seq=5)
    assert (len(batch), batch.last_seq) == (0, 4)
    assert not any(batch.columns())
    assert len(ScalarColumns.of(())) == 0


def test_a_batch_can_be_sent_to_another_process(tmp_path):
    batch = Batch.of(one_of_each(tmp_path))
    copied = pickle.loads(pickle.dumps(batch))
    assert copied.columns() == batch.columns()
    assert copied.scalars.values.tolist() == [0.25]
