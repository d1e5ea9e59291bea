"""Inline SVG: well formed whatever the names and numbers, and nothing that is not finite is hidden."""

from html import unescape
from xml.etree import ElementTree

import numpy as np
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.pictures.html_page import html_page, safe
from debuggers.pictures.svg_lines import line_chart
from debuggers.pictures.svg_map import heat_map, layers_over_steps

NUMBERS = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20)
LINES = st.dictionaries(st.text(max_size=20), NUMBERS, max_size=7)


def parsed(figure):
    return ElementTree.fromstring(figure.replace("&nbsp;", " ").replace("<br>", "<br/>"))


def numbered(lines):
    return {name: (np.arange(len(values)), np.array(values, float)) for name, values in lines.items()}


@settings(max_examples=examples(40))
@given(st.text(max_size=20), LINES)
def test_pictures_of_any_numbers_are_well_formed(title, lines):
    for figure in (line_chart(title, numbered(lines), marks=(1,)), heat_map(title, numbered(lines))):
        parsed(figure)
        assert "nan" not in "".join(part.get("d", "") for part in parsed(figure).iter())


def test_a_line_has_a_gap_and_a_mark_where_it_is_not_finite():
    figure = line_chart(
        "loss", {"loss": (np.arange(5), np.array([1.0, 2.0, np.nan, 4.0, 5.0]))}, unit="nats", marks=(3,)
    )

    path = next(part for part in parsed(figure).iter() if part.get("fill") == "none")
    assert path.get("d").count("M") == 2
    assert figure.count("not finite") == 1
    assert "loss, nats, last 5, 1 NaN" in figure
    assert "<title>step 3</title>" in figure


def test_layers_with_other_steps_are_put_on_one_axis():
    table, steps, measured = layers_over_steps(
        {"a": (np.array([0, 4]), np.array([1.0, np.nan])), "b": (np.array([2]), np.ones(1))}
    )

    assert steps.tolist() == [0, 2, 4]
    assert measured.tolist() == [[True, False, True], [False, True, False]]
    assert table[0, 0] == table[1, 1] == 1


def test_many_layers_and_steps_stay_a_small_picture():
    steps = np.arange(5000)

    figure = heat_map("norms", {f"layer{i}": (steps, np.exp(steps / 500 - i)) for i in range(200)})

    assert "48 of 200 layers" in figure and "log scale" in figure
    assert len(figure) < 150_000


@given(st.text())
def test_any_text_is_safe_in_a_page(text):
    assert not set("<>\"'") & set(safe(text))
    assert unescape(safe("a<b> & 'c'")) == "a<b> & 'c'"


def test_a_page_loads_nothing():
    page = html_page("<title>", "<p>text</p>")

    assert "&lt;title&gt;" in page
    assert "default-src 'none'" in page
    assert "<script" not in page and "http://" not in page and "https://" not in page
