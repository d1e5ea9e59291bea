"""The tables that a query sees, and the SQL that makes them of segments; ``docs/data.md`` describes them.

Each segment is attached under a name of its own. ``stored_scalar``, ``stored_histogram`` and ``stored_artifact`` put
the rows of all segments together, those that were copied because SQLite attaches only a few files included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from tracker_adapters.artifacts import KINDS, Artifact
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import fields_in_meta

TABLES = """
CREATE TABLE runs(
    run TEXT, id TEXT, title TEXT, status TEXT, created_ns INTEGER, ended_ns INTEGER, tags TEXT, config TEXT,
    environment TEXT, path TEXT);
CREATE TABLE attempts(
    run TEXT, rank INTEGER, attempt INTEGER, started_ns INTEGER, PRIMARY KEY(run, rank, attempt));
CREATE TABLE series(
    run TEXT, rank INTEGER, kind TEXT, name TEXT, count INTEGER, last_step INTEGER, last_value REAL);
CREATE TABLE wanted(
    origin INTEGER, number INTEGER, run TEXT, rank INTEGER, kind TEXT, name TEXT, PRIMARY KEY(origin, number))
    WITHOUT ROWID;
CREATE TABLE replaced(place INTEGER, seq INTEGER, PRIMARY KEY(place, seq)) WITHOUT ROWID;
"""
"""``wanted`` holds the series of each segment that the query may see, ``replaced`` what a later attempt recorded again.
An ``origin`` is the number of a segment, a ``place`` that of a rank of a run."""

CONTENT = {**schema.CONTENT, "artifact": ("kind", *schema.CONTENT["artifact"])}
"""The columns of each of a segment's tables that follow ``step`` and ``time_ns``; an artifact's kind is its series'."""
_SOUND = {
    "scalar": "typeof(a.value) IN ('real', 'null') AND typeof(a.step) = 'integer' AND typeof(a.time_ns) = 'integer'",
    "histogram": "typeof(a.data) = 'blob'",
    "artifact": "json_valid(a.meta)",
}
"""What a row must be to be shown: anything else is damaged."""
_COMMON = "run, rank, attempt, name, step, time_ns"
_FILE = "json_extract(meta, '$.filename') AS filename, json_extract(meta, '$.size') AS size, blob AS sha256"
_VIEWS = {
    "scalars": ("scalar", "value"),
    "histograms": (
        "histogram",
        ", ".join(
            f"histogram_{key}(data) AS {key}"
            for key in ("count", "nan", "pos_inf", "neg_inf", "zero", "min", "max", "mean", "std")
        )
        + ", data",
    ),
    "images": (
        "artifact",
        "json_extract(meta, '$.width') AS width, json_extract(meta, '$.height') AS height, "
        "content(origin, data, blob) AS png",
    ),
    "pages": ("artifact", f"{_FILE}, stored_file(blob) AS file, CAST(data AS TEXT) AS contents"),
    "files": (
        "artifact",
        f"{_FILE}, stored_file(blob) AS file, json_extract(meta, '$.media_type') AS media_type",
    ),
}


def _columns(kind: str, cls: type[Artifact]) -> str:
    """The columns of a kind whose view shows its fields as they are stored."""
    in_meta = fields_in_meta(kind)
    return ", ".join(
        f"json_extract(meta, '$.{one.name}') AS {one.name}"
        if one.name in in_meta
        else f"stored_field(content(origin, data, blob), '{kind}', '{one.name}') AS {one.name}"
        for one in fields(cls)[len(fields(Artifact)) :]
    )


_VIEWS |= {f"{kind}s": ("artifact", _columns(kind, cls)) for kind, cls in KINDS.items() if f"{kind}s" not in _VIEWS}


def copies() -> str:
    """Returns the SQL that makes the tables for copied rows."""
    return "".join(
        f"CREATE TABLE copied_{table}(origin INTEGER, {_COMMON}, {', '.join(content)});"
        for table, content in CONTENT.items()
    )


def select_rows(
    table: str, database: str, origin: int, *, steps: tuple[int, int], last_seq: int, replaced_in: int | None
) -> str:
    """Returns the query for the rows of one of a segment's tables, with the columns of ``copies``.

    Args:
        table: ``scalar``, ``histogram`` or ``artifact``.
        database: The name under which the segment is attached.
        origin: Its number.
        steps: The first and the last step.
        last_seq: The last sequence number.
        replaced_in: Its place, where ``replaced`` says something of it.
    """
    content = ", ".join(f"s.{key}" if key == "kind" else f"a.{key}" for key in CONTENT[table])
    # The order of the join is fixed: SQLite would sort the whole table by series to save looking each one up.
    query = (
        f"SELECT {origin} AS origin, s.run, s.rank, a.attempt, s.name, a.step, a.time_ns, {content} "
        f"FROM {database}.{table} AS a CROSS JOIN main.wanted AS s ON s.origin = {origin} AND s.number = a.series "
        f"WHERE a.step BETWEEN {steps[0]} AND {steps[1]} AND a.seq <= {last_seq} AND {_SOUND[table]}"
    )
    if replaced_in is not None:
        query += f" AND NOT EXISTS (SELECT 1 FROM main.replaced AS r WHERE r.place = {replaced_in} AND r.seq = a.seq)"
    return query


def views(selects: Mapping[str, Sequence[str]]) -> str:
    """Returns the SQL that makes the views, of the queries for the attached segments by table."""
    statements = []
    for table in CONTENT:
        parts = " UNION ALL ".join([*selects[table], f"SELECT * FROM main.copied_{table}"])
        statements.append(_view(f"stored_{table}", parts))
    for view, (table, columns) in _VIEWS.items():
        condition = f" WHERE kind = '{view[:-1]}'" if table == "artifact" else ""
        statements.append(_view(view, f"SELECT {_COMMON}, {columns} FROM stored_{table}{condition}"))
    return "".join(statements)


def _view(name: str, query: str) -> str:
    # Only temporary views may look into attached files.
    return f"DROP VIEW IF EXISTS temp.{name}; CREATE TEMP VIEW {name} AS {query};"
