"""Histograms of one name: bounded, nothing lost, drawn whatever they hold."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram
from tracker_adapters.sinks.mlflow.heat_map_figure import HeatMapFigure, round_values
from tracker_adapters.sinks.mlflow.histogram_series import MAX_COLUMNS, HistogramSeries

HARD_VALUES = {
    "empty": [],
    "all-nan": [math.nan] * 3,
    "all-inf": [math.inf, -math.inf],
    "constant": [2.5] * 4,
    "zeros": [0.0, 0.0],
    "mixed": [-1.0, math.nan, math.inf, 4.0],
    "beyond-float32": [1e300, -1e308],
    "below-float32": [1e-300, 5e-324],
}


@pytest.fixture(scope="module")
def figure():
    return HeatMapFigure()


def histogram(step, values=(1.0, 2.0), name="h"):
    return Histogram.from_values(name, np.asarray(values, dtype=float), step=step, time_ns=step)


def test_a_series_is_bounded_and_keeps_every_element_in_order():
    one = histogram(0)
    series = HistogramSeries()
    for length in range(1 + 5 * MAX_COLUMNS):
        assert len(series.columns) == len(series.sizes) == len(series.first_steps) <= MAX_COLUMNS
        assert sum(series.sizes) == series.total == length
        assert [column.count for column in series.columns] == [2 * size for size in series.sizes]
        assert len(set(series.sizes[:-1])) <= 1
        series.add(one)


def test_the_table_says_which_steps_a_column_stands_for():
    series = HistogramSeries()
    for step in range(MAX_COLUMNS + 1):
        series.add(histogram(step, [step, step]))
    table = series.table()
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]  # type: ignore[call-overload]
    assert [(row["first_step"], row["step"], row["histograms"]) for row in rows[:2]] == [(0, 1, 2), (2, 3, 2)]
    assert (rows[0]["min"], rows[0]["max"], rows[0]["count"]) == (0.0, 1.0, 4)
    assert rows[-1]["step"] == MAX_COLUMNS


@pytest.mark.slow
@pytest.mark.parametrize("values", HARD_VALUES.values(), ids=HARD_VALUES.keys())
def test_hard_histograms_are_drawn_and_tabled(values, figure):
    series = HistogramSeries()
    series.add(histogram(0, [0.5, -0.5]))
    series.add(histogram(2**63 - 1, values, name="h"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert series.heat_map(figure).startswith(b"\x89PNG")
        json.dumps(series.table(), allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("values", HARD_VALUES.values(), ids=HARD_VALUES.keys())
def test_a_hard_histogram_alone_is_drawn(values, figure):
    series = HistogramSeries()
    series.add(histogram(0, values, name="😀 $x^2$\n" + "long " * 50))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert series.heat_map(figure).startswith(b"\x89PNG")


@pytest.mark.slow
def test_nothing_of_one_picture_stays_in_the_next(figure):
    by_name = {}
    for name, values in HARD_VALUES.items():
        by_name[name] = series = HistogramSeries()
        for step in range(1 + len(by_name)):
            series.add(histogram(step, values, name=name))
    alone = {name: series.heat_map(HeatMapFigure()) for name, series in by_name.items()}
    for name in [*by_name, *reversed(by_name)]:
        assert by_name[name].heat_map(figure) == alone[name], name


@pytest.mark.parametrize(
    ("low", "high", "scale", "expected"),
    [
        (-18, 19, 1, [-10, -5, -1, 0, 1, 5, 10]),
        (0, 1e-3, 1e-9, [0, 2e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]),
        (1e-9, 5e-9, 1e-9, [1e-9, 2e-9, 5e-9]),
        (0, 0, 1, [0] * 9),
    ],
)
def test_the_value_axis_has_round_numbers(low, high, scale, expected):
    assert round_values(low, high, scale) == pytest.approx(expected)


@given(st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).map(sorted), st.floats(1e-9, 1))
def test_any_value_axis_has_ascending_numbers_within_it(bounds, share):
    low, high = bounds
    scale = max(abs(low), abs(high)) * share or 1.0
    found = round_values(low, high, scale)
    assert 3 <= len(found) <= 30
    assert found == sorted(found)
    margin = 1e-9 * max(abs(low), abs(high), 1e-300)
    assert low - margin <= found[0] <= found[-1] <= high + margin
