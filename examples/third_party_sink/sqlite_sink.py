"""A sink that keeps every artifact as a row of one SQLite table."""

import json
import sqlite3

from tracker_adapters.sink import StartOver, checked_options

COLUMNS = "run, seq INTEGER, kind, name, step INTEGER, time_ns INTEGER, value REAL, content"
CONTENT = {"text": ["text"], "alert": ["level", "message"], "histogram": ["finite_count", "min", "max"],
           "table": ["columns", "rows"], "page": ["sha256"], "file": ["sha256"]}  # fmt: skip


class SQLiteSink:
    """Option: ``target``, the database; ``artifacts.sqlite`` in the run's folder by default."""

    kinds = frozenset({"scalar", "image", *CONTENT})  # other kinds, such as curves, come as tables

    def __init__(self, target):
        self.target, self._rows, self._seq, self._connection = target, [], 0, None

    @classmethod
    def resolve(cls, options, run_folder):  # in the training process: check, fill in, import no SDK
        given = checked_options("sqlite", options, {"target": str})
        return {"target": str((run_folder / given.get("target", "artifacts.sqlite")).absolute())}

    @classmethod
    def look(cls, options):
        return f"sqlite3 {options['target']} 'SELECT * FROM artifact'"

    def open(self, info, token):  # in the delivery process, as everything below
        self._run, self._seq = info.id, int(token or 0)
        self._connection = sqlite3.connect(self.target)
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS artifact({COLUMNS}, PRIMARY KEY(run, seq))")
        with self._connection:  # back to the token: what was written after it is written again
            self._connection.execute("DELETE FROM artifact WHERE run = ? AND seq > ?", (self._run, self._seq))
        held = self._connection.execute("SELECT max(seq) FROM artifact WHERE run = ?", (self._run,)).fetchone()[0]
        if (held or 0) != self._seq:
            raise StartOver(f"{self.target} no longer holds what it held at {self._seq}")

    def write(self, batch):
        s = batch.scalars
        for row in zip(s.seqs.tolist(), s.names, s.steps.tolist(), s.times_ns.tolist(), s.values.tolist(), strict=True):
            self._rows.append((self._run, row[0], "scalar", *row[1:], None))
        for column in batch.columns():
            for seq, one in zip(column.seqs, column.artifacts, strict=True):
                self._rows.append((self._run, seq, one.kind, one.name, one.step, one.time_ns, None, content(one)))
        return {}  # nothing that cannot be shown

    def flush(self):
        with self._connection:
            self._connection.executemany("INSERT INTO artifact VALUES (?,?,?,?,?,?,?,?)", self._rows)
        self._seq = max([self._seq, *(row[1] for row in self._rows)])
        self._rows = []
        return str(self._seq).encode()

    def finish(self, status):
        """A table has no place for it."""

    def close(self):
        if self._connection is not None:
            self._connection.close()


def content(artifact):  # an image's PNG bytes; what other kinds hold, as JSON
    if artifact.kind == "image":
        return artifact.png
    return json.dumps([getattr(artifact, name) for name in CONTENT[artifact.kind]])
