"""A shortened name keeps both of its ends."""

import pytest

from debuggers.pictures.names import shortened


@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [
        ("layers.0.weight", 15, "layers.0.weight"),
        ("layers.0.weight", 11, "layer…eight"),
        ("layers.0.weight", 10, "layer…ight"),
        ("layers.0.weight", 2, "l…"),
        ("", 5, ""),
    ],
)
def test_both_ends_stay(name, most, expected):
    assert shortened(name, most) == expected
    assert len(expected) <= most
