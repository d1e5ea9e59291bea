"""The sink passes the contract that every built-in sink passes, read back with sqlite3 itself."""

import json
import math
import sqlite3

from sqlite_sink import SQLiteSink
from tracker_adapters.testing.contract import Shown, SinkContract, pixel_digest


class TestSQLiteSink(SinkContract):
    sink_class = SQLiteSink

    def read_back(self, options):
        connection = sqlite3.connect(options["target"])
        rows = connection.execute("SELECT kind, name, step, value, content FROM artifact ORDER BY seq").fetchall()
        connection.close()
        return [Shown(kind, name, step, shown_value(kind, value, held)) for kind, name, step, value, held in rows]


def shown_value(kind, value, content):
    if kind == "scalar":
        return math.nan if value is None else value
    if kind == "image":
        return pixel_digest(content)
    held = json.loads(content)
    if kind == "table":
        return tuple(held[0]), tuple(map(tuple, held[1]))
    return held[0] if len(held) == 1 else tuple(held)
