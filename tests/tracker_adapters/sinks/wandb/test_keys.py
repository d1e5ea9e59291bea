"""Names as W&B keys: reversible, distinct, and safe as file names."""

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.artifacts import KINDS
from tracker_adapters.sinks.wandb.keys import Keys, escape, unescape

PIECES = (
    "step", "_", "/", "//", ".", "..", "%", "%2", "%2F", "a", "loss", " (image)", " (nan)", ":", "\\", "\n", "é", "😀",
)  # fmt: skip
names = st.one_of(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300),
)
kinds = st.sampled_from(sorted(KINDS))


@given(names)
def test_a_scalars_key_gives_its_name_back(name):
    assert unescape(escape(name)) == (name, "")


@given(st.lists(st.tuples(kinds, names), unique=True))
def test_keys_are_distinct_and_name_the_second_kind(uses):
    keys = Keys()
    given_out = {(kind, name): keys.of(kind, name) for kind, name in uses}
    assert len(set(given_out.values())) == len(uses)
    for (kind, name), key in given_out.items():
        owner = keys.owners[name]
        assert unescape(key)[1] == ("" if kind == owner else kind)
        if escape(name, kind) == escape(name):
            assert unescape(key)[0] == name


@given(st.lists(st.tuples(kinds, names)))
def test_keys_stay_the_same_when_their_owners_are_kept(uses):
    keys = Keys()
    before = [keys.of(kind, name) for kind, name in uses]
    kept = Keys(keys.owners)
    assert [kept.of(kind, name) for kind, name in reversed(uses)] == before[::-1]


@given(kinds, names)
def test_keys_are_no_path_out_of_a_folder_and_not_reserved(kind, name):
    key = Keys().of(kind, name)
    assert key != "step"
    assert not key.startswith("_")
    assert not PurePosixPath(key).is_absolute()
    assert not PureWindowsPath(key).anchor
    assert ".." not in PurePosixPath(key).parts
    assert kind == "scalar" or len(key.encode()) <= 120


@pytest.mark.parametrize(
    "name",
    [
        "train/loss",
        "layer1.0.weight",
        "grad[0]",
        "loss @ 50%",
        "Ünïcødé",
        "acc:top1/x",
        "epoch (train)",
        "steps",
        "a_b",
    ],
)
def test_ordinary_names_stay_as_they_are(name):
    assert escape(name, "image") == name


@pytest.mark.parametrize(
    ("name", "key"),
    [("step", "%73tep"), ("_loss", "%5Floss"), ("../x", "%2E%2E/x"), ("/a", "%2Fa"), ("x (image)", "x %28image)")],
)
def test_names_that_mean_something_else_are_percent_encoded(name, key):
    assert escape(name) == key
