"""Folder names of the local sink: safe everywhere, and never shared."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.formats.file_names import safe_component, safe_suffix
from tracker_adapters.testing.samples import ODD_NAMES

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=1000)
TRICKY = st.text(st.sampled_from("aA./~-\\_ :0fé"), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ["loss", "grad/fc1/weight", "layer.0.bias", "a-b_c"])
def test_ordinary_names_stay_readable(name):
    assert safe_component(name) == name.replace("/", "~")


@given(st.one_of(NAMES, TRICKY))
@example("con")
@example("con/a.b")
@example("lpt1.txt")
@example("x" * 1000)
@example("a.")
def test_a_name_becomes_one_safe_component(name):
    component = safe_component(name)
    assert component.isascii()
    assert 1 <= len(component) <= 128
    assert not set(component) & set('/\\:*?"<>| ')
    assert not component.endswith(".")
    assert component[0].isalnum() or component[0] == "_"
    assert component.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt1"}


@given(st.one_of(NAMES, TRICKY), st.one_of(NAMES, TRICKY))
@example("a/b", "a~b")
@example("case", "CASE")
@example("a\u0301", "\u00e1")
def test_two_names_never_share_a_folder_even_where_case_is_ignored(one, other):
    if one != other:
        assert safe_component(one).lower() != safe_component(other).lower()


@given(st.one_of(NAMES, TRICKY))
def test_the_folder_of_one_name_is_not_the_name_of_another(name):
    """A name that looks like a shortened one gets a checksum of its own."""
    component = safe_component(name)
    if component != name:
        assert safe_component(component) != component


def test_the_odd_names_keep_apart():
    assert len({safe_component(name).lower() for name in ODD_NAMES}) == len(ODD_NAMES)


@pytest.mark.parametrize(
    ("filename", "suffix"),
    [("report.html", ".html"), ("a.tar.gz", ".gz"), ("none", ""), ("..", ""), ("x./../y", ""), ("x.é", ""), ("", "")],
)
def test_only_a_plain_suffix_is_kept(filename, suffix):
    assert safe_suffix(filename) == suffix
