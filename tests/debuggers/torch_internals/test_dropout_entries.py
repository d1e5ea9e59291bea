"""What is expected of the functions that drop for ``torch.nn.functional``; needs nothing but torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.torch_internals import dropout_entries

ROWS = torch.ones(4, 3, 8, 8)
DROPOUTS = {
    "dropout": functional.dropout,
    "feature_dropout": functional.dropout2d,
    "alpha_dropout": functional.alpha_dropout,
    "feature_alpha_dropout": functional.feature_alpha_dropout,
}


def dropped(kind, training=True):
    torch.manual_seed(0)
    return DROPOUTS[kind.rstrip("_")](ROWS.clone(), 0.3, training=training, inplace=kind.endswith("_"))


def noting(inner, found) -> dropout_entries.DropoutEntry:
    def drop(*arguments, **keywords):
        found.append(arguments[1:])
        return inner(*arguments, **keywords)

    return drop


def test_each_kind_has_a_function_here():
    assert set(dropout_entries.KINDS) == {kind + suffix for kind in DROPOUTS for suffix in ("", "_")}


@pytest.mark.parametrize("kind", dropout_entries.KINDS)
def test_a_dropout_calls_it_with_its_share_and_whether_it_drops(kind):
    expected, found = dropped(kind), []
    own = dropout_entries.dropout_entry(kind)
    entry = noting(own, found)
    dropout_entries.replace_dropout_entry(kind, entry)
    try:
        assert dropout_entries.dropout_entry(kind) is own
        assert torch.equal(dropped(kind), expected)
        assert torch.equal(dropped(kind, training=False), ROWS)
        dropout_entries.replace_dropout_entry(kind, noting(own, []))  # ours is in its place already
        assert torch.equal(nn.Dropout(0.0)(ROWS), ROWS)
    finally:
        dropout_entries.restore_dropout_entry(kind, entry)
    dropped(kind)
    assert found[:2] == [(0.3, True), (0.3, False)]
    assert len(found) == (3 if kind == "dropout" else 2)


def test_what_somebody_else_has_put_there_stays(monkeypatch):
    theirs = noting(dropout_entries.dropout_entry("dropout"), [])
    monkeypatch.setattr(functional._VF, "dropout", theirs)
    dropout_entries.replace_dropout_entry("dropout", noting(theirs, []))
    dropout_entries.restore_dropout_entry("dropout", noting(theirs, []))
    assert functional._VF.dropout is theirs


def test_the_compiler_goes_through_what_is_in_its_place():
    entry = noting(dropout_entries.dropout_entry("dropout"), [])
    dropout_entries.replace_dropout_entry("dropout", entry)
    try:
        compiled = torch.compile(lambda rows: functional.dropout(rows, 0.5, False) + 1, fullgraph=True, backend="eager")
        assert torch.equal(compiled(ROWS), ROWS + 1)
    finally:
        dropout_entries.restore_dropout_entry("dropout", entry)
