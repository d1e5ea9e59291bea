"""The ledger, read beside the process that keeps it."""

import sqlite3

import pytest
from tracker_adapters.store.layout import DELIVERY_DATABASE
from tracker_adapters.store.ledger import Ledger, position_key, read_positions


def test_positions_are_read_while_the_ledger_is_kept(folder):
    with Ledger(folder) as ledger:
        old = ledger.register("local", "/out")
        key = position_key("local", "/out")
        ledger.advance(key, old, seq=7, token=b"t", unshown={"late_step": 2})
        found = read_positions(folder)[key]
        assert (found.seq, found.delivered, found.failed, found.state) == (7, 5, {"late_step": 2}, "delivering")


def test_reading_makes_nothing_where_nothing_was_delivered(folder):
    assert read_positions(folder) == {}
    assert not list(folder.iterdir())


def test_a_ledger_that_is_none_is_refused(folder):
    (folder / DELIVERY_DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(sqlite3.DatabaseError):
        read_positions(folder)
