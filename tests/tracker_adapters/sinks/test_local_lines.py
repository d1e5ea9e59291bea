"""The rows of scalars.csv, put together for many scalars at once, hold each of them exactly."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import ScalarColumns
from tracker_adapters.sinks.local.lines import SCALAR_HEADER, scalar_lines

TIMES = st.integers(-(2**63) + 1, 2**63 - 1)  # -2**63 is NumPy's "not a time"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
ROWS = st.lists(st.tuples(NAMES, st.integers(0, 2**63 - 1), TIMES, st.floats()), min_size=1, max_size=20)


def rows_of(scalars: ScalarColumns, attempt: int) -> list[dict[str, str]]:
    text = (SCALAR_HEADER + scalar_lines(scalars, attempt)).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def digits(number: str) -> str:
    """The significant digits of a number's text."""
    return re.sub(r"e.*|[-.]", "", number).strip("0")


@given(ROWS, st.integers(1, 2**31))
@example([("loss", 0, 0, 5e-324), ("loss", 1, -1, 1e22), ("loss", 2, 10**18, 1.7976931348623157e308)], 1)
def test_every_field_reads_back(rows: list[tuple[str, int, int, float]], attempt: int) -> None:
    names, steps, times_ns, values = zip(*rows, strict=True)
    columns = ScalarColumns(
        seqs=np.arange(len(rows)),
        names=names,
        steps=np.array(steps, np.int64),
        times_ns=np.array(times_ns, np.int64),
        values=np.array(values, np.float64),
    )
    found = rows_of(columns, attempt)
    assert [row["name"] for row in found] == list(names)
    assert [int(row["step"]) for row in found] == list(steps)
    exact = np.datetime_as_string(columns.times_ns.view("datetime64[ns]"), timezone="UTC")
    assert [row["time"] for row in found] == exact.tolist()
    assert [repr(float(row["value"])) for row in found] == [repr(value) for value in values]
    assert [digits(row["value"]) for row in found] == [digits(repr(value)) for value in values]
    assert {row["attempt"] for row in found} == {str(attempt)}


def test_a_row_looks_as_people_expect() -> None:
    scalar = Scalar(name="train/loss", value=0.25, step=12, time_ns=1_700_000_000_000_000_001)
    line = scalar_lines(ScalarColumns.of([(1, scalar)]), attempt=2)
    assert line == b"train/loss,12,2023-11-14T22:13:20.000000001Z,0.25,2\r\n"
