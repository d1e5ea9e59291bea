"""Names in MLflow: what its own validator takes, reversible, and safe as files."""

import posixpath
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.sinks.mlflow.names import (
    MAX_KEY_LENGTH,
    digest_of_cut_key,
    file_stem,
    metric_key,
    name_of_key,
    safe_file_name,
)
from tracker_adapters.testing.contract import ODD_NAMES

NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=60) | st.text(
    "./ :%~aA-_2F\n", min_size=1, max_size=400
)


def mlflow_takes(key):
    """The rule of mlflow.utils.validation (3.17), with the colon that Windows refuses left to us."""
    norm = posixpath.normpath(key)
    return bool(re.fullmatch(r"[/\w.\- :]*", key)) and norm == key and norm != "." and not norm.startswith(("..", "/"))


@pytest.mark.parametrize("name", ["loss", "train/loss", "grad/layer1.0.Conv2d_weight", "Accuracy top-5", "Ünïcødé"])
def test_ordinary_names_stay_as_they_are(name):
    assert metric_key(name) == name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("grad[0]", "grad:5B0:5D"),
        ("a:b", "a:3Ab"),
        ("a//b", "a/:2Fb"),
        ("/a/", ":2Fa:2F"),
        ("..", ":2E."),
        ("a/../b", "a/:2E./b"),
        ("...x", ":2E..x"),
        (" x ", ":20x:20"),
        ("a\n", "a:0A"),
    ],
)
def test_other_names_are_escaped_in_hexadecimal(name, key):
    assert metric_key(name) == key


@given(NAMES)
@example("x" * 300)
@example("a /\n")
def test_every_key_is_taken_and_leads_back_to_its_name(name):
    key = metric_key(name)
    assert mlflow_takes(key)
    assert len(key) <= MAX_KEY_LENGTH
    if digest_of_cut_key(key) is None:
        assert name_of_key(key) == name
    else:
        assert len(name) > MAX_KEY_LENGTH / 12


@given(NAMES, NAMES)
def test_names_never_share_a_key_or_a_file_even_where_case_does_not_count(one, other):
    if one != other:
        assert metric_key(one) != metric_key(other)
        assert file_stem(one).lower() != file_stem(other).lower()


def test_the_odd_names_of_the_contract_have_files_of_their_own():
    assert len({file_stem(name).lower() for name in ODD_NAMES}) == len(ODD_NAMES)


@given(NAMES)
def test_file_names_are_one_plain_segment(name):
    for made in (file_stem(name), safe_file_name(name)):
        assert re.fullmatch(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,119}", made)


@pytest.mark.parametrize(
    ("name", "made"), [("page_0.pkl", "page_0.pkl"), ("../../x.sh", "_.._x.sh"), ("...", "file"), ("é.bin", "_.bin")]
)
def test_a_users_file_name_keeps_its_suffix(name, made):
    assert safe_file_name(name) == made
