"""The debug outputs of an epoch are a mapping that opens a page only when a datapoint in it is asked for."""

import numpy as np
import pytest
from debugger_parts import write_pages

from debuggers.debug_outputs import load_debug_outputs
from debuggers.errors import PageError


def page_of(*indices):
    return {idx: {"maps": {"feature_map": np.full(3, float(idx))}} for idx in indices}


@pytest.mark.parametrize("given", ["epoch_4", "epoch_4/debugger"])
def test_an_epoch_is_found_by_its_folder_and_by_that_of_its_pages(tmp_path, given):
    write_pages(tmp_path / "epoch_4" / "debugger", page_of(0, 1), page_of(2))
    for folder in (tmp_path / given, str(tmp_path / given)):
        outputs = load_debug_outputs(folder)
        assert list(outputs) == [0, 1, 2]
        np.testing.assert_array_equal(np.full(3, 2.0), outputs[2]["maps"]["feature_map"])


def test_an_evaluation_is_found_by_its_folder(tmp_path):
    write_pages(tmp_path / "debugger", page_of(7))
    assert 7 in load_debug_outputs(tmp_path)


def test_no_page_is_read_before_it_is_asked_for(tmp_path):
    write_pages(tmp_path / "debugger", page_of(0), page_of(1))
    for path in (tmp_path / "debugger").glob("page_*.pkl"):
        path.write_bytes(b"damaged")
    outputs = load_debug_outputs(tmp_path)
    assert (len(outputs), 1 in outputs, 2 in outputs) == (2, True, False)
    with pytest.raises(PageError, match=r"page_1\.pkl"):
        outputs[1]


@pytest.mark.parametrize("folder", ["missing", "empty", "others"])
def test_a_folder_without_pages_is_an_error_that_names_what_was_expected(tmp_path, folder):
    (tmp_path / "empty" / "debugger").mkdir(parents=True)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "checkpoint.pt").write_bytes(b"")
    expected = rf"{folder}: has no debug outputs; expected page_<n>\.pkl files in .*{folder}/debugger or .*{folder}$"
    with pytest.raises(PageError, match=expected):
        load_debug_outputs(tmp_path / folder)
