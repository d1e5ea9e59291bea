"""A page that is damaged is refused; one of another program loads if it is trusted."""

import joblib
import numpy as np
import pytest
import torch

from debuggers.pages import PageError, load_page, write_page

PAGE = {3: {"d": {"map": np.arange(50.0), "text": "abc", "count": 5}}}


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
