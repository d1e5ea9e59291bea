"""Opening a store again: what is damaged is named, and no number is ever given twice."""

import sqlite3

import pytest
from hostile_journal import write_journal_that_names
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import RunError, UnsafeFileError
from tracker_adapters.store.connections import connect
from tracker_adapters.store.layout import segments
from tracker_adapters.store.ledger import Ledger, position_key
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.writing.run_store import RunStore


@pytest.mark.parametrize("damage", ["garbage", "truncated", "header"])
def test_a_damaged_last_segment_is_named_and_the_others_can_be_read(run_folder, three_segments, damage, caplog):
    last = three_segments[-1]
    intact = last.read_bytes()
    last.write_bytes(
        {
            "garbage": b"no database " * 1000,
            "truncated": intact[: len(intact) // 2],
            "header": bytes(100) + intact[100:],
        }[damage]
    )
    with pytest.raises(RunError, match=rf"its last segment {last} is damaged \(.*start a new run in another folder"):
        RunStore(run_folder, resume=True)
    with RunRecord(run_folder) as record:
        assert record.scalars("loss").steps.tolist() == list(range(4000))
        assert record.damaged >= 1
    assert f"the segment {last} is damaged (" in caplog.text
    assert "move it away to read the other segments" in caplog.text
    last.rename(run_folder / "damaged")
    with RunRecord(run_folder) as record:
        assert record.scalars("loss").steps.tolist() == list(range(4000))
    store = RunStore(run_folder, resume=True)
    Emitter(store).scalar("loss", -1, step=4000)
    assert store.close(60)
    with RunRecord(run_folder) as record:
        assert record.scalars("loss").values.tolist()[-2:] == [3999, -1]


def test_numbers_that_a_sink_has_taken_are_not_given_again(run_folder, caplog):
    """A power cut may take the last commits from the store, and not from the ledger."""
    store = RunStore(run_folder)
    for step in range(100):
        Emitter(store).scalar("loss", step, step=step)
    store.close()
    with Ledger(store.folder) as ledger:
        position = ledger.register("memory", "here")
        ledger.advance(position_key("memory", "here"), position, seq=100, token=b"", unshown={})
    connection = sqlite3.connect(segments(store.folder)[-1])
    connection.execute("DELETE FROM scalar WHERE seq > 90")
    connection.commit()
    connection.close()
    store = RunStore(run_folder, resume=True)
    Emitter(store).scalar("loss", -1, step=90)
    assert store.close(60)
    assert "has lost its last 10 artifacts, which a sink has" in caplog.text
    batch = StoreReader(run_folder).read(100)
    assert batch is not None
    assert (batch.scalars.seqs.tolist(), batch.scalars.values.tolist()) == ([101], [-1])
    batch = StoreReader(run_folder).read(90)
    assert batch is not None
    assert (batch.first_seq, batch.unreadable, batch.absent) == (91, 10, 0)  # lost, not compacted


@pytest.mark.parametrize("opened", ["segment", "delivery"])
def test_a_journal_that_names_another_file_deletes_nothing(run_folder, tmp_path, opened):
    """SQLite puts the database right by the journal, and then deletes the file whose name the journal ends in."""
    store = RunStore(run_folder)
    Emitter(store).scalar("loss", 1.0, step=0)
    assert store.close(60)
    Ledger(store.folder).close()
    database = segments(store.folder)[-1] if opened == "segment" else store.folder / "delivery.db"
    elsewhere = tmp_path / "thesis.txt"
    elsewhere.write_text("two years of work")
    write_journal_that_names(elsewhere, database)
    with pytest.raises(RunError, match="names another file"):
        RunStore(run_folder, resume=True)
    with pytest.raises(UnsafeFileError, match="names another file"):
        connect(database, "rw")
    assert elsewhere.read_text() == "two years of work"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE meta SET value = 'x' WHERE key = 'first_seq'",
        "UPDATE series SET id = 7 WHERE id = 1",
        "UPDATE series SET name = '' WHERE id = 1",
        "DELETE FROM attempt",
        "UPDATE attempt SET attempt = 9223372036854775807",
        "UPDATE scalar SET seq = 'x' WHERE seq = 90",
        "UPDATE scalar SET seq_group = 'x' WHERE seq = 90",
        "INSERT OR REPLACE INTO meta VALUES ('rolled_seq', 1000000)",
    ],
)
def test_a_run_whose_last_segment_is_damaged_in_a_cell_goes_on_and_gives_no_number_again(run_folder, damage):
    store = RunStore(run_folder)
    for step in range(100):
        Emitter(store).scalar("loss", step, step=step)
    assert store.close(60)
    connection = sqlite3.connect(segments(store.folder)[-1])
    connection.execute(damage)
    connection.commit()
    connection.close()
    store = RunStore(run_folder, resume=True)
    assert (store.attempt, store.last_seq) == (2, 100)
    Emitter(store).scalar("loss", -1, step=50)
    Emitter(store).scalar("other", -2, step=0)
    assert store.close(60)
    assert store.counts().lost == {}
    with RunRecord(run_folder) as record:
        assert record.scalars("other").values.tolist() == [-2]
        assert -1 in record.scalars("loss").values
        if not damage.startswith("UPDATE series"):
            assert len(record.scalars("loss")) >= 99
