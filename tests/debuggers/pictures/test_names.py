"""A shortened name keeps both of its ends, and what tells it from others."""

import pytest

from debuggers.pictures.names import shortened, told_apart


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


def test_long_names_keep_what_tells_them_apart():
    names = [f"encoder.layers.{layer}.attention.{kind}" for layer in (0, 11) for kind in ("weight", "bias")]

    assert told_apart([*names, "head"], 19) == [
        "…0.attention.weight", "…0.attention.bias", "…11.atten…on.weight", "…11.attention.bias", "head",
    ]  # fmt: skip
    assert len(set(told_apart(names, 14))) == 4
    assert told_apart(names, 40) == names
    assert told_apart(names[:1], 12) == [shortened(names[0], 12)]
    assert told_apart([], 5) == []
