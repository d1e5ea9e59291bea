"""Random databases for the compiled code, compared with what SQLite finds; see ``kernel_fuzzing``."""

import math
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def write_database(path: Path, random: np.random.Generator) -> tuple[sqlite3.Connection, dict[str, int], int]:
    """Writes two tables, the second one without numbers of rows: returns the database, their roots and an integer.

    The integer is the number of a row of the first table, and the second key of some of the second one.
    """
    integers = [int(random.integers(-(2**63), 2**63) >> random.integers(0, 64)) for _ in range(random.integers(1, 900))]
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE a(number INTEGER PRIMARY KEY, one, text)")
    database.execute("CREATE TABLE b(a, b, c REAL, PRIMARY KEY(a, b)) WITHOUT ROWID")
    texts = ("ü" * int(random.integers(0, 9)) ** 5 if random.random() < 0.05 else "" for _ in integers)
    rows = [(one, random.choice([None, 1, 0.5, b"x"]), text) for one, text in zip(integers, texts, strict=True)]
    database.executemany("INSERT OR IGNORE INTO a VALUES (?,?,?)", rows)
    keys = ((one >> 60, one, random.choice([1.0, 0.5, math.nan])) for one in integers)
    database.executemany("INSERT OR IGNORE INTO b VALUES (?,?,?)", keys)
    database.commit()
    roots = dict(database.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage"))
    return database, roots, int(random.choice(integers))


def damage(stream: BinaryIO, size: int, random: np.random.Generator) -> None:
    """Changes one to three bytes of a database, many of them in the heads of its pages."""
    for _ in range(random.integers(1, 4)):
        changed = int(random.integers(size) if random.random() < 0.5 else random.integers(40))
        page = int(random.integers(size // 4096)) * 4096 if random.random() < 0.9 else 0
        stream.seek(page + changed % 4096)
        stream.write(bytes([int(random.integers(256))]))


def check(kernels: Any, random: np.random.Generator, done: Counter[str]) -> None:
    """Reads a small database as SQLite does, and then with some of its bytes changed, which must do no harm."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        made, roots, wanted = write_database(path, random)
        with closing(made) as database:
            expected = database.execute("SELECT * FROM a WHERE number >= ? ORDER BY number", (wanted,)).fetchall()
            keyed = database.execute("SELECT c FROM b WHERE b = ? ORDER BY a", (wanted,)).fetchall()
            every = database.execute("SELECT * FROM b ORDER BY a, b").fetchall()
        size, fields = path.stat().st_size, np.array([~2]).tobytes()
        for damaged in range(8):
            with path.open("r+b") as stream:
                file = stream.fileno()
                try:
                    found = kernels.rows(file, roots["a"], wanted, 2**63 - 1)
                    whole = kernels.rows(file, roots["b"], 0, 0)
                    entries = kernels.columns(file, roots["b"], 2, np.array([wanted]).tobytes(), True, fields)
                    if not damaged:
                        assert [(row[0], *row[2:]) for row in found] == expected
                        assert whole == every
                        np.testing.assert_array_equal(np.frombuffer(entries), np.array(keyed, np.float64).ravel())
                    done["trees"] += 1
                except (ValueError, UnicodeDecodeError):
                    assert damaged, "a sound database was refused"
                    done["refused trees"] += 1
                damage(stream, size, random)
