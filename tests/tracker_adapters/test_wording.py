"""Words for numbers of things and for what a value does."""

import math

import pytest
from tracker_adapters.wording import from_to


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (2.3, 1.5, "from 2.3 to 1.5"),
        (2.3041, 2.3018, "from 2.304 to 2.302"),
        (2.3000001, 2.3000002, "from 2.3000001 to 2.3000002"),
        (2.3, 2.3, "from 2.3 to 2.3"),
        (4.63e6, math.nan, "from 4.63e+06 to nan"),
    ],
)
def test_two_numbers_have_as_many_digits_as_tell_them_apart(first, last, text):
    assert from_to(first, last) == text
