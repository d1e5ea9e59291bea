"""SQL stands in the store alone, with two exceptions that work on databases of their own."""

import ast
import re

import pytest
from source_imports import HOMES, ROOT, files_of, parsed

PLACES = ("adapters/tracker_adapters/store/", "stepscope/query/", "adapters/tracker_adapters/sinks/mlflow/database.py")
CALLS = {"execute", "executemany", "executescript"}
WORD = re.compile("SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|DROP|ALTER|" + "|".join(CALLS))
"""What every statement or call has one of: most sources have none, and need not be parsed."""
# In capitals, as ours are: the examples of a command's help are not.
STATEMENT = re.compile(
    r"\b(?:SELECT\b.+\bFROM|INSERT\s+(?:OR \w+ )?INTO|UPDATE\b.+\bSET|DELETE\s+FROM|PRAGMA\s+\w+|"
    r"(?:CREATE|DROP|ALTER)\s+(?:TEMP )?(?:TABLE|INDEX|VIEW))\b",
    re.DOTALL,
)


def sql_in(source):
    """What of a source is SQL: each call that runs some, and each text with a statement; docstrings are left out."""
    if not WORD.search(source):
        return []
    nodes = list(ast.walk(parsed(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = []
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found += STATEMENT.findall(node.value)
        elif isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            found += STATEMENT.findall("".join(map(str, texts)))
    return found


def test_sql_stands_in_the_store_alone():
    for home in HOMES.values():
        for path in files_of(home):
            relative = path.relative_to(ROOT).as_posix()
            if not relative.startswith(PLACES):
                assert sql_in(path.read_text(encoding="utf-8")) == [], relative


@pytest.mark.parametrize("place", PLACES)
def test_the_places_of_sql_are_found_by_what_looks_for_it(place):
    files = [path for home in HOMES.values() for path in files_of(home)]
    assert any(
        sql_in(path.read_text(encoding="utf-8"))
        for path in files
        if path.relative_to(ROOT).as_posix().startswith(place)
    )


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute(query)",
        "query = f'SELECT {columns} FROM {table}'",
        "query = 'SELECT count(*) ' 'FROM series'",
        "database.executescript(TABLES)",
        "wal = 'PRAGMA journal_mode=WAL'",
    ],
)
def test_sql_is_seen_in_every_form(source):
    assert sql_in(source)
