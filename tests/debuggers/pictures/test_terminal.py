"""Pictures as text: they fit, they count what they cannot show, and they are fast."""

import io
import time

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from tracker_adapters.errors import ArtifactError

from debuggers.pictures.terminal import TerminalVisualizer

NUMBERS = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20)
NAMES = st.text(max_size=60)
TERMINALS = st.builds(TerminalVisualizer, st.integers(40, 100), st.integers(6, 30), unicode=st.booleans())
STEPS = range(40)


def assert_fits(picture, terminal):
    lines = picture.split("\n")
    assert len(lines) <= terminal.height
    assert max(map(cell_len, lines)) <= terminal.width
    assert min(picture.replace("\n", " ")) >= " "


@settings(max_examples=examples(30))
@given(TERMINALS, NUMBERS, st.integers(1, 50), NAMES)
def test_histograms_and_lines_of_any_numbers_fit_into_the_terminal(terminal, values, bins, title):
    assert_fits(terminal.ascii_histogram(values, bins, title), terminal)
    assert_fits(terminal.ascii_line_plot(range(len(values)), values, title), terminal)
    assert_fits(terminal.ascii_line_plot(values, values, title, log=True), terminal)


@settings(max_examples=15)
@given(TERMINALS, st.lists(st.tuples(NAMES, NUMBERS.filter(len)), min_size=1, max_size=12), NAMES)
def test_maps_and_tables_of_any_layers_fit_into_the_terminal(terminal, layers, title):
    width = min(len(values) for _, values in layers)
    names, table = [name for name, _ in layers], [values[:width] for _, values in layers]
    assert_fits(terminal.heat_map(table, names, range(width), title), terminal)
    assert_fits(terminal.layer_table(dict(layers), title), terminal)


def test_a_histogram_says_ranges_counts_and_what_is_not_finite():
    picture = TerminalVisualizer(60, 24, unicode=True).ascii_histogram([0, 0, 0, 4, np.nan, -np.inf], 2, "weights")

    assert picture.split("\n") == [
        "weights",
        "6 values, mean 1, std 1.73, 1 NaN, 1 -inf",
        "0 … 2 │" + "█" * 51 + " 3",
        "2 … 4 │" + "█" * 17 + " " * 34 + " 1",
    ]


def test_equal_values_are_one_bin():
    assert TerminalVisualizer(40, 24, unicode=False).ascii_histogram(torch.full((3,), 2.5)).split("\n") == [
        "3 values, mean 2.5, std 0",
        "2.5 to 2.5 |" + "#" * 26 + " 3",
    ]


def test_a_falling_line_falls():
    picture = TerminalVisualizer(40, 7, unicode=False).ascii_line_plot(range(5), [4, 3, 2, 1, 0], "loss").split("\n")

    assert picture[:2] == ["loss", "5 points"]
    assert picture[2].startswith("4 |***")
    assert picture[4].startswith("0 |") and picture[4].endswith("***")
    assert picture[-1].split() == ["0", "4"]


def test_a_line_is_marked_where_it_is_not_finite():
    picture = TerminalVisualizer(40, 8, unicode=True).ascii_line_plot(range(22), [1.0] * 11 + [np.nan] + [2.0] * 10)

    assert "22 points, 1 NaN" in picture
    assert "×" in picture.split("\n")[1]


def test_a_logarithmic_line_counts_what_is_not_positive():
    assert "2 not positive" in TerminalVisualizer(unicode=True).ascii_line_plot([0, 1, 2], [0.0, -1.0, 5.0], log=True)


def test_a_map_tells_nan_and_infinity_apart_and_names_its_scale():
    picture = TerminalVisualizer(80, 10, unicode=False).heat_map(
        [[1, 10, np.nan], [100, 5000, np.inf]], ["a", "b"], [0, 5, 9]
    )

    rows = picture.split("\n")
    assert rows[0] == "a |.-?"
    assert rows[1] == "b |+@!"
    assert rows[-1] == ". = 1, @ = 5,000, ? = NaN, ! = infinite, 1 NaN, 1 +inf, log scale"


@pytest.mark.parametrize(("height", "layers", "legend"), [
    (10, 2, [". = 0, @ = 3, ? = NaN, ! = infinite", "2 NaN, 1 +inf, 1 -inf"]),
    (6, 2, [". = 0, @ = 3, ? = NaN, ! = infinite", "2 NaN, 1 +inf, 1 -inf"]),
    (6, 3, [". = 0, @ = 3, ? = NaN, ! = infinite", "2 NaN, 1 +inf, 1 -inf, 2 of 3 layers"]),
])  # fmt: skip
def test_a_narrow_map_has_its_whole_legend_in_lines_that_take_the_place_of_rows(height, layers, legend):
    table = [[np.inf, -np.inf, np.nan, np.nan], *([[0, 1, 2, 3]] * (layers - 1))]
    rows = TerminalVisualizer(40, height, unicode=False).heat_map(table, list("abc")[:layers], range(4)).split("\n")

    assert rows[-2:] == legend
    assert len(rows) == 5


def test_a_map_without_layers_has_no_values():
    assert TerminalVisualizer().heat_map([], [], [], "norm") == "norm\nno values"
    assert TerminalVisualizer().heat_map([], [], [0, 1]) == "no values"


def test_a_table_has_a_row_for_each_layer_and_counts_those_without_room():
    rows = (
        TerminalVisualizer(80, 6, unicode=True).layer_table({f"層{i}": np.arange(16) * i for i in range(9)}).split("\n")
    )

    assert rows[0].split() == ["layer", "trend", "first", "last", "min", "max"]
    assert rows[2].split() == ["層1", "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██", "0", "15", "0", "15"]
    assert rows[-1] == "and 5 more layers"


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", "█"), ("ascii", "#"), ("latin-1", "#"), ("cp437", "#")])
def test_the_stream_decides_about_the_characters(encoding, expected):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)

    picture = TerminalVisualizer(stream=stream).ascii_histogram([1, 2, 3], 3, "層")

    assert expected in picture
    picture.encode(encoding)


def test_a_million_points_take_no_second():
    values = np.random.default_rng(0).normal(size=10**6)
    terminal = TerminalVisualizer(unicode=True)
    before = time.process_time()

    terminal.ascii_line_plot(np.arange(10**6), values)
    terminal.ascii_histogram(values, 20)

    assert time.process_time() - before < 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TerminalVisualizer(5), "width is 5; expected an integer of at least 40"),
        (lambda: TerminalVisualizer(80, True), "height is True"),
        (lambda: TerminalVisualizer().ascii_histogram([1], 0), "bins is 0; expected a positive integer"),
        (lambda: TerminalVisualizer().ascii_histogram(["a"]), "histogram: got list"),
        (lambda: TerminalVisualizer().ascii_line_plot([1, 2], [1]), r"x has shape \(2,\) and y \(1,\)"),
        (lambda: TerminalVisualizer().heat_map([[1, 2]], ["a", "b"], [0, 1]), r"shape \(1, 2\); expected \(2, 2\)"),
        (lambda: TerminalVisualizer().heat_map([], ["a"], []), r"shape \(0,\); expected \(1, 0\)"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ArtifactError, match=message):
        call()
