"""What a page may hold: arrays and plain values, nested and shared like debug outputs."""

import numpy as np
import pytest

from debuggers.errors import PageError
from debuggers.page_files.checking import MAX_LEVELS, MAX_VALUES_A_BYTE, check_page


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def doubled(times):
    value = [0]
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", b"a", np.ones(3), (), [[{}, ()]], {1: {None: [2.0]}}])
def test_arrays_and_plain_values_may_be_nested(value):
    check_page({0: {"d": value}}, nbytes=100)


@pytest.mark.parametrize("value", [object(), {1}, np.float32(1), 1j, [bytearray()], {"a": (1, int)}])
def test_anything_else_is_refused_by_its_type(value):
    with pytest.raises(PageError, match=r"^holds a (object|set|float32|complex|bytearray|type); expected"):
        check_page({0: {"d": value}}, nbytes=100)


@pytest.mark.parametrize("page", [[], {"0": {}}, {0: []}, {0: {1: 2}}, None])
def test_a_page_is_datapoints_with_debuggers(page):
    with pytest.raises(PageError, match=r"^holds no page; expected \{datapoint_idx: \{debugger_name: outputs\}\}"):
        check_page(page, nbytes=100)


def test_levels_are_limited():
    check_page({0: {"d": nested(MAX_LEVELS - 1)}}, nbytes=100)
    with pytest.raises(PageError, match=f"nested more than {MAX_LEVELS} levels"):
        check_page({0: {"d": nested(MAX_LEVELS)}}, nbytes=100)


def test_levels_of_a_shared_container_count_where_it_lies_deepest():
    shared = nested(MAX_LEVELS - 3)
    check_page({0: {"a": shared, "b": [[shared]]}}, nbytes=100)
    with pytest.raises(PageError, match="levels"):
        check_page({0: {"a": shared, "b": [[[shared]]]}}, nbytes=100)


def test_a_list_that_the_datapoints_of_a_batch_share_is_no_trap():
    shared = list(range(1000))
    check_page({idx: {"d": {"values": shared}} for idx in range(10_000)}, nbytes=2000)


def test_sharing_may_unfold_to_so_many_values_a_byte():
    values = 2 + 2**10 + sum(2**level for level in range(1, 11)) - 1
    check_page({0: {"d": doubled(10)}}, nbytes=values // MAX_VALUES_A_BYTE + 1)
    with pytest.raises(PageError, match=r"^datapoint 0 unfolds to more than 16 values a byte"):
        check_page({0: {"d": doubled(10)}}, nbytes=values // MAX_VALUES_A_BYTE - 1)
    with pytest.raises(PageError, match="unfolds"):
        check_page({0: {"d": doubled(90)}}, nbytes=10**9)
