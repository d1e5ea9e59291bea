"""A page is a joblib file of arrays and plain values; a reader opens only the page that it needs."""

import hashlib
import json
from dataclasses import replace

import joblib
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as array_strategies

from debuggers.page_files.index import add_to_index, clear_pages, write_index
from debuggers.pages import PageError, PageReader, load_page, read_index, write_page


def write_pages(folder, pages):
    records = [write_page(folder, number, page) for number, page in enumerate(pages)]
    write_index(folder, records)
    return records


def page_of(*indices, value=1.0):
    return {idx: {"map": {"values": np.full(1000, value + idx)}} for idx in indices}


shapes = array_strategies.array_shapes(min_dims=0, min_side=0, max_side=4)
arrays = array_strategies.arrays(
    st.sampled_from(["?", "i1", "u8", ">i4", "f2", "<f4", ">f8", "c16"]), shapes
) | st.builds(
    lambda array, dtype: array.view(dtype),
    array_strategies.arrays("u1", shapes),
    st.sampled_from([ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn]),
)
leaves = (
    arrays
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=300)
)
outputs = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def assert_same(expected, found):
    if isinstance(expected, np.ndarray):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        assert expected.tobytes() == found.tobytes()
    elif isinstance(expected, dict):
        assert list(expected) == list(found)
        for key, item in expected.items():
            assert_same(item, found[key])
    elif isinstance(expected, (list, tuple)):
        assert (type(expected), len(expected)) == (type(found), len(found))
        for item, twin in zip(expected, found, strict=True):
            assert_same(item, twin)
    else:
        assert (type(expected), expected) == (type(found), found)


@given(st.dictionaries(st.integers(0), st.dictionaries(st.text(), outputs, max_size=3), max_size=4))
def test_what_was_written_is_read_by_us_and_by_joblib(tmp_path_factory, page):
    folder = tmp_path_factory.mktemp("pages")
    record = write_page(folder, 0, page)
    path = folder / "page_0.pkl"
    assert_same(page, load_page(path, size=record.size, sha256=record.sha256))
    assert_same(page, joblib.load(path, mmap_mode="r"))
    assert (path.stat().st_size, tuple(page)) == (record.size, record.datapoints)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == record.sha256


def test_strided_arrays_keep_their_values(tmp_path):
    values = np.arange(24.0).reshape(2, 3, 4)
    page = {0: {"d": {"a": values.transpose(2, 0, 1), "b": values[:, ::2], "c": np.broadcast_to(values[0, 0], (5, 4))}}}
    write_page(tmp_path, 0, page)
    for name, array in page[0]["d"].items():
        np.testing.assert_array_equal(array, load_page(tmp_path / "page_0.pkl")[0]["d"][name])


def test_bfloat16_keeps_its_values(tmp_path):
    values = np.array([1.5, np.nan, -np.inf], dtype=ml_dtypes.bfloat16)
    write_page(tmp_path, 0, {0: {"d": values}})
    assert_same(values, load_page(tmp_path / "page_0.pkl")[0]["d"])


def test_an_array_that_two_datapoints_share_is_stored_once(tmp_path):
    shared = np.ones(100_000)
    page = {idx: {"d": shared} for idx in range(10)}
    record = write_page(tmp_path, 0, page)
    assert record.size < 1.1 * shared.nbytes
    for loaded in (load_page(tmp_path / "page_0.pkl"), joblib.load(tmp_path / "page_0.pkl")):
        np.testing.assert_array_equal(shared, loaded[9]["d"])


def test_a_reader_is_a_mapping_of_datapoints(tmp_path):
    write_pages(tmp_path, [page_of(4, 2), page_of(9)])
    reader = PageReader(tmp_path)
    assert (len(reader), list(reader)) == (3, [4, 2, 9])
    assert 9 in reader
    assert 3 not in reader
    assert reader[9]["map"]["values"][0] == 10
    assert [idx for idx, outputs in reader.items() if outputs["map"]["values"][0] == idx + 1] == [4, 2, 9]
    with pytest.raises(KeyError):
        reader[3]


def test_a_reader_opens_only_the_page_it_needs(tmp_path):
    write_pages(tmp_path, [page_of(0), page_of(1)])
    (tmp_path / "page_0.pkl").write_bytes(b"damaged")
    assert PageReader(tmp_path)[1]["map"]["values"].shape == (1000,)
    with pytest.raises(PageError, match=r"page_0\.pkl: has 7 bytes; its index says \d+"):
        PageReader(tmp_path)[0]


def test_arrays_are_read_only_views_of_the_file(tmp_path):
    write_pages(tmp_path, [page_of(0)])
    values = PageReader(tmp_path)[0]["map"]["values"]
    assert not values.flags.writeable
    assert not values.flags.owndata


def test_the_latest_of_two_records_of_a_datapoint_is_shown(tmp_path):
    write_pages(tmp_path, [page_of(0, value=1.0), page_of(0, value=5.0)])
    assert PageReader(tmp_path)[0]["map"]["values"][0] == 5


def test_a_missing_or_damaged_index_is_rebuilt(tmp_path):
    records = write_pages(tmp_path, [page_of(0, 1), page_of(2)])
    for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(b'{"schema_version": 1, "pages": [{')):
        damage(tmp_path / "index.json")
        assert records == read_index(tmp_path)
    write_index(tmp_path, records[:1])
    assert records == read_index(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", None], ids=["deep", "no text", "a folder"])
def test_an_index_that_cannot_be_read_is_rebuilt(tmp_path, caplog, content):
    write_page(tmp_path, 0, page_of(7))
    index = tmp_path / "index.json"
    index.mkdir() if content is None else index.write_bytes(content)
    assert list(PageReader(tmp_path)) == [7]
    assert "index.json cannot be read" in caplog.text


def test_pages_are_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 9, 0):
        write_page(tmp_path, number, page_of(number))
    assert list(PageReader(tmp_path)) == [0, 9, 10]


def test_a_page_that_is_refused_is_left_out_of_a_rebuilt_index(tmp_path, caplog):
    write_page(tmp_path, 0, page_of(0))
    (tmp_path / "page_1.pkl").write_bytes(b"no page")
    assert list(PageReader(tmp_path)) == [0]
    assert "page_1.pkl" in caplog.text


def test_the_index_says_what_lies_where(tmp_path):
    (record,) = write_pages(tmp_path, [page_of(3, 1)])
    index = json.loads((tmp_path / "index.json").read_bytes())
    page = {"page": "page_0.pkl", "size": record.size, "sha256": record.sha256, "datapoints": [3, 1]}
    assert index == {"schema_version": 1, "pages": [page]}


def test_an_index_that_promises_too_much_is_found_out(tmp_path):
    (record,) = write_pages(tmp_path, [page_of(3)])
    write_index(tmp_path, [replace(record, datapoints=(3, 4))])
    with pytest.raises(PageError, match=r"page_0\.pkl: has no datapoint 4"):
        PageReader(tmp_path)[4]


def test_a_page_joins_the_index_and_no_other_is_opened(tmp_path, caplog):
    records = write_pages(tmp_path, [page_of(0), page_of(1)])
    (tmp_path / "page_1.pkl").write_bytes(b"changed")
    (tmp_path / "page_7.pkl").write_bytes(b"unlisted")
    added = write_page(tmp_path, 10, page_of(9))
    add_to_index(tmp_path, added)
    again = write_page(tmp_path, 0, page_of(5))
    add_to_index(tmp_path, again)
    assert not caplog.records
    index = json.loads((tmp_path / "index.json").read_bytes())["pages"]
    assert [(page["page"], page["datapoints"]) for page in index] == [
        ("page_0.pkl", [5]),
        ("page_1.pkl", [1]),
        ("page_10.pkl", [9]),
    ]
    assert index[1]["sha256"] == records[1].sha256


def test_an_index_cannot_lead_out_of_its_folder(tmp_path):
    page = {"page": "../page_0.pkl", "size": 1, "sha256": "", "datapoints": [0]}
    (tmp_path / "index.json").write_text(json.dumps({"schema_version": 1, "pages": [page]}))
    with pytest.raises(PageError, match="page named"):
        PageReader(tmp_path)


def test_a_later_version_of_the_index_is_refused(tmp_path):
    (tmp_path / "index.json").write_text('{"schema_version": 2, "pages": []}')
    with pytest.raises(PageError, match="schema_version is 2"):
        PageReader(tmp_path)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PageError, match="epoch_7"):
        PageReader(tmp_path / "epoch_7")


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path):
    write_page(tmp_path, 0, page_of(0))
    before = (tmp_path / "page_0.pkl").read_bytes()
    with pytest.raises(TypeError, match="generator"):
        write_page(tmp_path, 0, {0: {"d": (n for n in ())}})
    assert before == (tmp_path / "page_0.pkl").read_bytes()
    assert [tmp_path / "page_0.pkl"] == list(tmp_path.iterdir())


def test_no_link_that_lies_where_a_page_is_written_is_followed(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "pages"
    outside.write_bytes(b"theirs")
    folder.mkdir()
    for name in ("page_0.pkl", "index.json", ".page_0.pkl.part", ".index.json.part"):
        (folder / name).symlink_to(outside)
    write_pages(folder, [page_of(0)])
    assert outside.read_bytes() == b"theirs"
    assert load_page(folder / "page_0.pkl")


def test_clearing_removes_only_what_pages_brought(tmp_path):
    write_pages(tmp_path, [page_of(0)])
    for unfinished in (
        ".page_1.pkl.part",
        ".index.json.part",
        ".page_1.pkl.0123abcd.part",
        ".index.json.0123abcd.part",
    ):
        (tmp_path / unfinished).write_bytes(b"unfinished")
    mine = {"page_notes.txt", "results.pkl", "page_1.pkl.bak", "other.json", "other.part"}
    for name in mine:
        (tmp_path / name).write_text("mine")
    clear_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == mine


def test_a_reader_takes_its_pages_from_whoever_knows_them(tmp_path):
    records = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (record,) = write_pages(tmp_path / name, [page_of(1, 2, value=float(len(name)))])
        records.append(replace(record, page=f"{name}/{record.page}"))
    reader = PageReader(tmp_path, records=records)
    assert list(reader) == [1, 2]
    assert reader[2]["map"]["values"][0] == 8.0  # as it was last recorded
    with pytest.raises(PageError, match="checksum"):
        PageReader(tmp_path, records=[replace(records[0], sha256="0" * 64)])[1]
