"""Scalars, texts, alerts and tables."""

import enum
import math

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.artifacts import (
    Alert,
    Scalar,
    Table,
    Text,
)
from tracker_adapters.errors import ArtifactError


class Mode(enum.StrEnum):
    FAST = "fast"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize("value", [1, True, np.float32(0.5), torch.tensor(2.5, dtype=torch.bfloat16), math.inf])
def test_a_scalar_is_a_float(value):
    scalar = Scalar(name="s", step=0, value=value)
    assert type(scalar.value) is float
    assert scalar.value == float(value)


@pytest.mark.parametrize("value", [None, "1", [1.0], torch.ones(2)], ids=str)
def test_a_scalar_of_anything_else_is_refused(value):
    with pytest.raises(ArtifactError, match=r"^scalar 's': got .*; expected a number"):
        Scalar(name="s", step=0, value=value)


@given(st.text())
def test_a_text_is_kept_whole_as_far_as_utf8_goes(text):
    """A model's decoder can produce half a character; the rest must still be recorded."""
    for kept in (Text(name="t", step=0, text=text).text, Alert(name="a", step=0, message=text).message):
        assert kept.encode().decode() == kept
        if not any("\ud800" <= character <= "\udfff" for character in text):
            assert kept == text


def test_a_half_character_is_escaped():
    assert Text(name="t", step=0, text="ok \ud83d").text == r"ok \ud83d"


@pytest.mark.parametrize("text", [None, 3, b"x"])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(ArtifactError, match=r"^text 't': text is .*; expected a str"):
        Text(name="t", step=0, text=text)
    with pytest.raises(ArtifactError, match=r"^alert 'a': message is .*; expected a str"):
        Alert(name="a", step=0, message=text)


@pytest.mark.parametrize("level", ["fatal", "WARNING", None, 3])
def test_an_alert_has_one_of_three_levels(level):
    with pytest.raises(ArtifactError, match=f"^alert 'a': level is {level!r}; expected one of info, warning, error"):
        Alert(name="a", step=0, message="m", level=level)


# Tables.


def test_a_table_holds_plain_cells_of_every_make():
    row = [np.float64(0.5), np.float32(0.5), np.int64(3), np.bool_(True), np.str_("x"), torch.tensor(2.0), Mode.FAST]
    rest = [Level.HIGH, np.longdouble(0.5), np.array(4), None, math.nan, 2**64 - 1, -(2**63)]
    table = Table(name="t", step=0, columns=["c"] * 14, rows=[row + rest])  # type: ignore[arg-type]
    kept = table.rows[0]
    assert [type(cell) for cell in kept] == [
        *(float, float, int, bool, str, float, str),
        *(int, float, int, type(None), float, int, int),
    ]
    assert kept[:11] == (0.5, 0.5, 3, True, "x", 2.0, "fast", 3, 0.5, 4, None)
    msgspec.msgpack.encode(table.rows)  # as the store keeps them


@given(st.lists(st.one_of(st.text(), st.floats(), st.booleans(), st.none(), st.integers(-(2**63), 2**64 - 1))))
def test_every_cell_can_be_stored(cells):
    table = Table(name="t", step=0, columns=[str(cell) for cell in cells], rows=[cells])  # type: ignore[arg-type]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(table.rows), type=list)
    msgspec.json.encode(table.columns)


def test_iterators_and_arrays_are_rows():
    table = Table(
        name="t",
        step=0,
        columns=(letter for letter in "ab"),  # type: ignore[arg-type]
        rows=(row for row in np.array([[1.5, 2.5], [3.5, 4.5]])),  # type: ignore[arg-type]
    )
    assert (table.columns, table.rows) == (("a", "b"), ((1.5, 2.5), (3.5, 4.5)))


def test_a_table_keeps_nothing_of_the_callers_lists():
    columns, rows = ["a"], [[1]]
    table = Table(name="t", step=0, columns=columns, rows=rows)  # type: ignore[arg-type]
    columns[0], rows[0][0] = "b", 2
    assert (table.columns, table.rows) == (("a",), ((1,),))


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        ("ab", [], "columns are 'ab'; expected a sequence of str"),
        ([1], [], r"columns are \[1\]"),
        (None, [], "columns are None"),
        (["a"], 3, "rows are 3; expected a sequence of rows"),
        (["a"], np.array(3), r"rows are array\(3\)"),
        (["a"], [[1, 2]], r"row 0 is \[1, 2\]; expected 1 cells, one a column"),
        (["a"], [[1], "b"], "row 1 is 'b'"),
        (["a"], [{"a": 1}], r"row 0 is \{'a': 1\}"),
        (["a"], [{1}], r"row 0 is \{1\}"),
        (["a"], [5], "row 0 is 5"),
        (["a"], [[[1]]], r"row 0 holds list \[1\]; expected str, int, float, bool or None"),
        (["a"], [[1j]], "row 0 holds complex 1j"),
        (["a"], [[b"x"]], "row 0 holds bytes b'x'"),
        (["a"], [[torch.ones(2)]], "row 0 holds Tensor"),
        (["a"], [[torch.ones((), device="meta")]], "row 0 holds Tensor"),
        (["a"], [[np.datetime64("2020-01-01")]], "row 0 holds datetime64"),
        (["a"], [[2**64]], "row 0 holds 18446744073709551616; expected integers of 64 bits"),
    ],
    ids=str,
)
def test_what_is_no_table_is_refused(columns, rows, message):
    with pytest.raises(ArtifactError, match=f"^table 't': {message}"):
        Table(name="t", step=0, columns=columns, rows=rows)
