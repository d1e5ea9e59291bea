"""The training's handle on its deliveries, when the run's folder goes away."""

import logging

import pytest
from tracker_adapters.delivery import handle
from tracker_adapters.delivery.handle import Delivery
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder
from tracker_adapters.store.ledger import Ledger

import stepscope


@pytest.fixture
def delivery(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    started = Delivery(tmp_path / "run", 0, [])
    with Ledger(rank_folder(tmp_path / "run", 0)) as ledger:
        started._positions = {"one": ledger.register("local", "one")}
    return started


def test_a_run_that_replaced_this_one_is_left_alone(tmp_path, delivery):
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        assert set(delivery.positions()) == {"one"}
    assert not (rank_folder(tmp_path / "run", 0) / DELIVERY_DATABASE).exists()


def test_a_run_that_goes_away_while_its_ledger_is_opened_is_no_ledger_that_cannot_be_read(
    tmp_path, delivery, monkeypatch, caplog
):
    def goes_away(folder, **options):
        (tmp_path / "run").rename(tmp_path / "elsewhere")
        return Ledger(folder, **options)

    monkeypatch.setattr(handle, "Ledger", goes_away)
    with caplog.at_level(logging.WARNING):
        assert set(delivery.positions()) == {"one"}
    assert caplog.messages == []


def test_a_ledger_that_cannot_be_read_is_told_once(tmp_path, delivery, caplog):
    (rank_folder(tmp_path / "run", 0) / DELIVERY_DATABASE).write_bytes(b"no database" * 100)
    for _ in range(2):
        assert set(delivery.positions()) == {"one"}
    assert [message[:31] for message in caplog.messages] == ["cannot read the positions of th"]
