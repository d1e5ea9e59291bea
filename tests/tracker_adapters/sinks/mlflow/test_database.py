"""What a tracking database in a folder from elsewhere must not do."""

import sqlite3
from contextlib import closing

import pytest
from hostile_journal import write_journal_that_names
from tracker_adapters.errors import SinkError
from tracker_adapters.sinks.mlflow.database import prepare_database


@pytest.mark.parametrize("linked", [False, True])
def test_a_journal_that_names_another_file_deletes_nothing(tmp_path, linked):
    """SQLite puts the database right by the journal, and then deletes the file whose name the journal ends in."""
    elsewhere = tmp_path / "thesis.txt"
    elsewhere.write_text("two years of work")
    (tmp_path / "kept").mkdir()
    database = tmp_path / ("kept" if linked else "") / "mlflow.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table alembic_version(version_num)")
        connection.commit()
    write_journal_that_names(elsewhere, database)
    if linked:
        (tmp_path / "mlflow.db").symlink_to(database)
    with pytest.raises(SinkError, match="journal names another file, which SQLite would delete"):
        prepare_database(tmp_path / "mlflow.db")
    assert elsewhere.exists()
