"""The rows of scalars.csv, put together for many scalars at once, hold each of them exactly."""

import csv
import io
import json
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram, Scalar
from tracker_adapters.batch import HistogramRows, ScalarColumns
from tracker_adapters.sinks.local.histograms import histogram_lines
from tracker_adapters.sinks.local.lines import SCALAR_HEADER, scalar_lines

TIMES = st.integers(-(2**63) + 1, 2**63 - 1)  # -2**63 is NumPy's "not a time"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
ROWS = st.lists(st.tuples(NAMES, st.integers(0, 2**63 - 1), TIMES, st.floats()), min_size=1, max_size=20)


def rows_of(scalars, attempt):
    text = (SCALAR_HEADER + scalar_lines(scalars, attempt)).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def digits(number):
    """The significant digits of a number's text."""
    return re.sub(r"e.*|[-.]", "", number).strip("0")


@given(ROWS, st.integers(1, 2**31))
@example([("loss", 0, 0, 5e-324), ("loss", 1, -1, 1e22), ("loss", 2, 10**18, 1.7976931348623157e308)], 1)
def test_every_field_reads_back(rows, attempt):
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


def test_a_row_looks_as_people_expect():
    scalar = Scalar(name="train/loss", value=0.25, step=12, time_ns=1_700_000_000_000_000_001)
    line = scalar_lines(ScalarColumns.of([(1, scalar)]), attempt=2)
    assert line == b"train/loss,12,2023-11-14T22:13:20.000000001Z,0.25,2\r\n"


VALUES = st.lists(st.floats() | st.floats(-1e-3, 1e-3), max_size=400)


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 9))
@example([[-1.7976931348623157e308, 1.7976931348623157e308], [], [float("nan")], [0.0, -0.0, 5e-324]], 1)
def test_a_histogram_is_written_as_its_edges_counts_and_percentiles(arrays, attempt):
    wanted = [Histogram.from_values(f"h{n}", values, step=n, time_ns=n) for n, values in enumerate(arrays)]
    lines = histogram_lines(range(7, 7 + len(wanted)), HistogramRows.of(wanted), attempt).splitlines()
    for seq, (line, histogram) in enumerate(zip(lines, wanted, strict=True), start=7):
        found = json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
        place = {key: found.pop(key) for key in ("name", "step", "time", "seq", "attempt")}
        name = histogram.name
        assert place == {"name": name, "step": seq - 7, "time": place["time"], "seq": seq, "attempt": attempt}
        edges, counts = histogram.edges(128)
        np.testing.assert_array_equal(np.array(found.pop("edges"), np.float64), edges)
        np.testing.assert_array_equal(np.array(found.pop("counts"), np.int64), counts)
        percentiles = found.pop("percentiles")
        expected = histogram.percentile([float(q) for q in percentiles])
        np.testing.assert_array_equal(np.array(list(percentiles.values()), np.float64), expected)
        assert found.keys() == {"count", "nan", "pos_inf", "neg_inf", "zero", "min", "max", "mean", "std"}
        for key, value in found.items():
            np.testing.assert_equal(float(value), float(getattr(histogram, key)))
