"""A table of layers over steps loses no extreme, no NaN and no infinity, however its cells are joined."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.viewer.answers.layer_table import FINITE, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, LayerTable

VALUES = st.floats(width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0])
POINTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3000), VALUES), max_size=60)


@given(
    parts=st.lists(POINTS, max_size=3),
    width=st.integers(1, 60),
    bounds=st.tuples(st.integers(0, 3000), st.integers(0, 3000)),
)
def test_a_window_has_the_extremes_of_all_values_in_each_cell(parts, width, bounds):
    table = LayerTable(3, max_cells=600)  # 200 columns
    for part in parts:
        rows, steps, values = (
            (np.array(column) for column in zip(*part, strict=True)) if part else [np.empty(0, int)] * 3
        )
        table.add(rows, steps, values.astype(float))
    first, last = sorted(bounds)
    cells = table.window(first, last, width)
    points = [point for part in parts for point in part]

    assert cells.low.shape == cells.high.shape == cells.bits.shape == (3, len(cells.first_steps))
    assert len(cells.first_steps) <= width
    assert cells.bits.any(axis=0).all()
    seen = 0
    for column, start in enumerate(cells.first_steps.tolist()):
        for row in range(3):
            inside = np.array([v for r, step, v in points if r == row and start <= step < start + cells.span])
            seen += len(inside)
            finite = inside[np.isfinite(inside)]
            assert np.array_equal(cells.low[row, column], finite.min() if finite.size else np.nan, equal_nan=True)
            assert np.array_equal(cells.high[row, column], finite.max() if finite.size else np.nan, equal_nan=True)
            kinds = {NAN: np.isnan, POSITIVE_INFINITY: np.isposinf, NEGATIVE_INFINITY: np.isneginf, FINITE: np.isfinite}
            assert cells.bits[row, column] == sum(
                bit for bit, test in kinds.items() if len(inside) and test(inside).any()
            )
    assert seen >= sum(first <= step <= last for _, step, _ in points)


def test_numbers_beyond_float32_stay_finite_and_tiny_ones_nonzero():
    table = LayerTable(1)
    table.add(np.zeros(3, int), np.arange(3), np.array([1e300, -1e300, 1e-300]))
    cells = table.window(0, 2, 10)
    assert np.isfinite(cells.high).all()
    assert (cells.high != 0).all()
    assert (cells.bits == FINITE).all()


def test_a_long_run_takes_no_more_memory_than_the_limit():
    table = LayerTable(10, max_cells=10_000)
    for start in range(0, 1_000_000, 100_000):
        table.add(np.arange(10), np.full(10, start), np.full(10, float(start)))
    assert table.nbytes <= 10_000 * 9
    assert table.window(0, 10**6, 1).high[:, 0].tolist() == [900_000.0] * 10
