"""A page that is damaged is refused; one of another program loads if it is trusted."""

import contextlib

import joblib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debuggers.pages import PageError, load_page, write_page

PAGE = {3: {"d": {"map": np.arange(50.0), "text": "abc", "count": 5}}}


def test_a_truncated_page_is_refused_at_every_length(tmp_path):
    write_page(tmp_path, 0, PAGE)
    path = tmp_path / "page_0.pkl"
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(PageError, match=r"page_0\.pkl: refused: "):
            load_page(path)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    record = write_page(folder, 0, PAGE)
    return record, folder / "page_0.pkl", (folder / "page_0.pkl").read_bytes()


@given(position=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_one_changed_byte_is_caught_by_the_checksum_and_harmless_without_it(written, position, flip):
    record, path, content = written
    changed = bytearray(content)
    changed[int(position * len(content))] ^= flip
    path.write_bytes(changed)
    with pytest.raises(PageError, match="checksum"):
        load_page(path, size=record.size, sha256=record.sha256)
    with contextlib.suppress(PageError):
        assert isinstance(load_page(path), dict)


def test_a_page_of_another_size_than_its_index_says_is_refused_unread(tmp_path):
    record = write_page(tmp_path, 0, PAGE)
    with pytest.raises(PageError, match=rf"page_0\.pkl: has {record.size} bytes; its index says 7"):
        load_page(tmp_path / "page_0.pkl", size=7, sha256=record.sha256)


def test_a_page_with_torch_tensors_loads_when_it_is_trusted(tmp_path):
    path = tmp_path / "page_0.pkl"
    joblib.dump({0: {"d": torch.ones(3)}}, path)
    assert load_page(path, trusted=True)[0]["d"].tolist() == [1, 1, 1]


def test_a_trusted_file_must_be_a_page_too(tmp_path):
    joblib.dump([torch.ones(3)], tmp_path / "page_0.pkl")
    with pytest.raises(PageError, match=r"page_0\.pkl: holds no page"):
        load_page(tmp_path / "page_0.pkl", trusted=True)


def test_a_page_of_plain_joblib_loads_without_trust(tmp_path):
    joblib.dump(PAGE, tmp_path / "page_0.pkl")
    np.testing.assert_array_equal(PAGE[3]["d"]["map"], load_page(tmp_path / "page_0.pkl")[3]["d"]["map"])


@pytest.mark.parametrize("length", [0, 20, 500])
def test_a_trusted_page_that_is_damaged_is_an_error_that_names_it(tmp_path, length):
    write_page(tmp_path, 0, {0: {"d": np.zeros(100)}})
    path = tmp_path / "page_0.pkl"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(PageError, match=r"page_0\.pkl: cannot be loaded: "):
        load_page(path, trusted=True)
