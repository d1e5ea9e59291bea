"""Comparisons of pages equal float64 references, and name what is missing or of another kind."""

import math
from itertools import groupby

import ml_dtypes
import numpy as np
import pytest
from debugger_parts import assert_elements, write_pages
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tracker_adapters.testing import MemoryEmitter

from debuggers.errors import PageError
from debuggers.page_comparison import compare_pages
from debuggers.page_files.differences import COLUMNS
from debuggers.pages import PageReader

NAN, INF = math.nan, math.inf


@pytest.fixture
def compare(tmp_path):
    """Compares one datapoint's outputs of one debugger."""

    def compare_outputs(a, b):
        sides = (write_pages(tmp_path / name, {4: {"maps": outputs}}) for name, outputs in (("a", a), ("b", b)))
        return compare_pages(*sides)

    return compare_outputs


VALUES = st.sampled_from([0.0, NAN, INF, -INF]) | st.floats(-1e3, 1e3, width=32).filter(lambda x: not 0 < abs(x) < 1e-3)
ARRAYS = hnp.arrays(np.float32, (3, 4), elements=VALUES)


@settings(deadline=None, max_examples=examples(40))  # each writes files
@given(a=ARRAYS, b=ARRAYS)
def test_arrays_are_compared_in_float64(tmp_path_factory, a, b):
    folder = tmp_path_factory.mktemp("pages")
    sides = [write_pages(folder / name, {0: {"d": array}}) for name, array in (("a", a), ("b", b))]
    found = compare_pages(*sides)
    finite = np.isfinite(a) & np.isfinite(b)
    alike = ((a == b) | (np.isnan(a) & np.isnan(b))) & ~finite
    assert found.equal_non_finite == alike.sum()
    if np.array_equal(a, b, equal_nan=True):
        assert found.differences == ()
        return
    (difference,) = found.differences
    assert difference.non_finite == (~finite & ~alike).sum()
    assert_elements(difference.elements, a, b)


OUTPUTS = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=3) | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=examples(40))  # each writes files
@given(st.dictionaries(st.integers(0, 9), st.dictionaries(st.text(max_size=2), OUTPUTS, max_size=3), min_size=1))
def test_nothing_differs_from_itself(tmp_path_factory, page):
    folder = write_pages(tmp_path_factory.mktemp("pages") / "a", page)
    found = compare_pages(folder, PageReader(folder))
    assert (found.differences, found.datapoints) == ((), len(page))
    assert found.summary().startswith(f"{len(page)} datapoints in both, 0 only in a, 0 only in b")


def test_numbers_and_lists_of_numbers_are_found_under_their_path(compare):
    a = {"stats": {"mean": 2.0, "shape": [1, 2]}, "parts": [{"x": np.ones(2)}, "same"], "bits": [True, False]}
    b = {"stats": {"mean": 3.0, "shape": [1, 2]}, "parts": [{"x": np.zeros(2)}, "same"], "bits": [True, True]}
    found = compare(a, b)
    by_path = {difference.path: difference for difference in found.differences}
    assert sorted(by_path) == ["bits", "parts/0/x", "stats/mean"]
    assert (found.values, found.datapoints) == (5, 1)
    mean = by_path["stats/mean"]
    assert (mean.datapoint, mean.debugger, mean.change, mean.a, mean.b) == (4, "maps", "values", "2", "3")
    assert (mean.elements.max_abs, mean.elements.relative) == (1, 0.5)
    assert by_path["bits"].elements.mean_abs == 0.5
    assert by_path["parts/0/x"].size == 1


@pytest.mark.parametrize(
    ("a", "b", "change"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), "shape"),
        ([1, 2], [1, 2, 3], "shape"),
        (1.0, np.ones(1), "shape"),
        ("conv1", "conv2", "text"),
        (None, "conv2", "text"),
        (10**400, 10**401, "text"),
        (None, 1.0, "type"),
        (np.ones(2), "gone", "type"),
        (np.ones(2, np.float32), np.ones(2, np.float64), "dtype"),
    ],
)
def test_changes_of_another_kind(compare, a, b, change):
    (difference,) = compare({"x": a}, {"x": b}).differences
    assert (difference.path, difference.change) == ("x", change)
    assert (difference.elements is None) == (change != "dtype")


def test_what_one_side_lacks_is_named(compare):
    found = compare({"x": 1.0, "error": "no"}, {"x": 1.0, "y": {"z": np.ones(3)}})
    assert [(each.path, each.change, each.a, each.b) for each in found.differences] == [
        ("error", "only in a", "'no'", ""),
        ("y/z", "only in b", "", "float64 (3,)"),
    ]


def test_a_debugger_or_datapoint_of_one_side_counts_as_a_whole(tmp_path):
    a = write_pages(tmp_path / "a", {0: {"old": {"x": 1.0, "y": 2.0}, "both": 1.0}, 1: {"both": 1.0}})
    b = write_pages(tmp_path / "b", {0: {"both": 1.0}, 2: {"both": 1.0}})
    found = compare_pages(a, b)
    assert [(each.datapoint, each.place, each.change) for each in found.differences] == [(0, "old", "only in a")]
    assert (found.datapoints, found.only_in_a, found.only_in_b, found.values) == (1, (1,), (2,), 2)


def test_narrow_floats_and_complex_arrays(compare):
    a = {"n": np.array([1, 2], ml_dtypes.bfloat16), "c": np.array([1j, complex(NAN, 0)])}
    b = {"n": np.array([1, 3], ml_dtypes.bfloat16), "c": np.array([1, complex(NAN, 0)])}
    found = compare(a, b)
    by_path = {difference.path: difference.elements for difference in found.differences}
    assert by_path["n"].max_abs == 1
    assert by_path["c"].max_abs == pytest.approx(2**0.5)
    assert found.equal_non_finite == 1


def test_arrays_larger_than_a_piece(compare):
    values = np.random.default_rng(0).normal(size=600_001)
    a, b = values.copy(), values.copy()
    a[[0, 300_000]] = NAN
    b[[0, -1]] = NAN
    found = compare(a, b)
    assert found.equal_non_finite == 1
    assert found.differences[0].non_finite == 2


def test_the_largest_comes_first(compare):
    a = {"small": 1.0, "large": 1.0, "from_zero": 0.0, "nan": 1.0, "text": "a"}
    b = {"small": 1.1, "large": 9.0, "from_zero": 1e-9, "nan": NAN, "text": "b"}
    paths = [difference.path for difference in compare(a, b).differences]
    assert set(paths[:3]) == {"from_zero", "nan", "text"}
    assert paths[3:] == ["large", "small"]


class AskedReader(PageReader):
    """Notes the page of each datapoint that it is asked for."""

    def __init__(self, folder):
        super().__init__(folder)
        self.asked = []

    def __getitem__(self, idx):
        self.asked += [record.page for record in self.records if idx in record.datapoints]
        return super().__getitem__(idx)


def test_pages_in_different_orders_are_opened_once_for_each_pair(tmp_path):
    order = np.random.default_rng(0).permutation(30).tolist()
    a = write_pages(tmp_path / "a", *({idx: {"d": 1.0} for idx in range(start, start + 10)} for start in (0, 10, 20)))
    b = write_pages(tmp_path / "b", *({idx: {"d": 2.0} for idx in order[start : start + 15]} for start in (0, 15)))
    readers = AskedReader(a), AskedReader(b)
    assert len(compare_pages(*readers).differences) == 30
    assert [len(list(groupby(reader.asked))) for reader in readers] == [3, 6]


def test_the_summary_has_a_line_for_each_place(tmp_path):
    a = {idx: {"maps": {"map": np.ones(4), "name": "conv"}, "gone": 1.0} for idx in range(3)}
    b = {idx: {"maps": {"map": np.full(4, 1.0 + idx), "name": "act"}} for idx in range(3)}
    found = compare_pages(write_pages(tmp_path / "a", a), write_pages(tmp_path / "b", b))
    head, *lines = found.summary().splitlines()
    assert head == "3 datapoints in both, 0 only in a, 0 only in b; 1 of 9 values are equal"
    assert lines[:2] == [
        "maps/name: another text for 3 datapoints, such as 0: 'conv' became 'act'",
        "gone: only in a, for 3 datapoints, such as 0",
    ]
    assert lines[2:] == [
        "maps/map: differs for 2 datapoints, most for 2: relative 2, at most 2, on average 2, cosine 1",
    ]
    assert found.summary(limit=1).splitlines()[1:] == [lines[0], "and 2 more"]


def test_the_summary_names_nan_and_dtypes(compare):
    found = compare(np.array([1.0, NAN, NAN]), np.array([1.5, NAN, 2.0], np.float32))
    head, line = found.summary().splitlines()
    assert head.endswith("0 of 1 values are equal; 1 elements are NaN or infinite in both")
    assert "1 elements NaN or infinite on one side" in line
    assert line.endswith("float64 (3,) became float32 (3,)")


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (1.0, 1.5, "relative 0.5, 1 became 1.5"),
        (1, NAN, "relative nan, 1 became nan"),
        (True, False, "relative 1, True became False"),
        (np.array([2.0]), np.array([1.0]), "relative 0.5, float64 (1,) 2 became float64 (1,) 1"),
        (np.array([True]), np.array([False]), "relative 1, bool (1,) 1 became bool (1,) 0"),
        (np.array([2j]), np.array([1j]), "relative 0.5, complex128 (1,) 0+2j became complex128 (1,) 0+1j"),
    ],
)
def test_the_summary_shows_single_numbers(compare, a, b, words):
    assert compare(a, b).summary().endswith(f"maps: differs for 1 datapoint, most for 4: {words}")


def test_the_table_is_what_a_run_takes(compare):
    comparison = compare({"x": np.ones(2), "y": "a"}, {"x": np.array([1.0, 3.0]), "y": "b"})
    emitter = MemoryEmitter()
    emitter.table("epochs", *comparison.table(), step=1)
    (table,) = emitter.artifacts
    assert table.columns == COLUMNS
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table.rows]
    assert [(row["path"], row["change"], row["max_abs"]) for row in rows] == [("y", "text", None), ("x", "values", 2.0)]
    assert len(comparison.table(limit=1)[1]) == 1


def test_a_folder_without_pages_is_an_error(tmp_path):
    write_pages(tmp_path / "a", {0: {"d": 1.0}})
    with pytest.raises(PageError, match="expected page_<n>"):
        compare_pages(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
def test_what_datapoints_share_is_compared_once(tmp_path):
    shared = [np.arange(1 << 20, dtype=np.float64) + side for side in (0, 1)]
    pages = [{idx: {"d": {"map": array, "nan": np.full(3, NAN)}} for idx in range(3000)} for array in shared]
    found = compare_pages(*(write_pages(tmp_path / name, page) for name, page in zip("ab", pages, strict=True)))
    assert (len(found.differences), found.values, found.equal_non_finite) == (3000, 6000, 9000)
    assert {difference.elements.max_abs for difference in found.differences} == {1.0}


@pytest.mark.parametrize(
    ("arrays", "size", "is_refused"), [(40, 100, False), pytest.param(150, 300, True, marks=pytest.mark.slow)]
)
def test_pages_that_pair_what_they_share_in_all_ways_are_refused(tmp_path, arrays, size, is_refused):
    a, b = ([np.full(size, float(number)) for number in range(arrays)] for _ in range(2))
    outputs = a * arrays, [array for array in b for _ in range(arrays)]
    sides = [write_pages(tmp_path / name, {0: {"d": output}}) for name, output in zip("ab", outputs, strict=True)]
    if is_refused:
        with pytest.raises(PageError, match=r"page_0\.pkl and page_0\.pkl share arrays in more pairs"):
            compare_pages(*sides)
    else:
        assert len(compare_pages(*sides).differences) == arrays * (arrays - 1)
