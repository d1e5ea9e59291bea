"""Text has the same bytes in every locale: whatever opens a text file or a pipe says its encoding."""

import ast
import re

import pytest
from source_imports import HOMES, files_of, parsed

WORD = re.compile(r"(?:open|read_text|write_text|TemporaryFile)\s*\(|text\s*=|universal_newlines")
"""What every call that is found has one of: most sources have none, and need not be parsed."""


def texts_without_encoding(code):
    """Returns the lines of the calls that would take the locale's encoding."""
    if not WORD.search(code):
        return []
    calls = [node for node in ast.walk(parsed(code)) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if _takes_text(call) and not _has(call, "encoding")]


def _takes_text(call):
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("read_text", "write_text"):
        return True
    if name in ("run", "Popen", "check_output", "check_call"):
        return any(word.arg in ("text", "universal_newlines") for word in call.keywords)
    if name in ("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile"):
        return "b" not in _mode(call, place=0, default="w+b")
    if name in ("open", "fdopen"):
        on_object = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") not in ("io", "os")
        mode = _mode(call, place=0 if on_object else 1, default="r")
        # What is no mode is another kind of open: a sink's, a picture's, os.open with its flags.
        return set(mode) <= set("rwxat+") and not (on_object and not call.args and not _has(call, "mode"))
    return False


def _mode(call, *, place, default):
    given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[place : place + 1]
    if not given:
        return default
    return given[0].value if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else "?"


def _has(call, keyword):
    return any(word.arg in (keyword, None) for word in call.keywords)


@pytest.mark.parametrize("package", HOMES)
def test_text_is_opened_with_its_encoding(package):
    found = {path: texts_without_encoding(path.read_text(encoding="utf-8")) for path in files_of(HOMES[package])}
    assert found
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "call",
    ["p.read_text()", "p.write_text('x')", "open(p)", "open(p, 'w')", "p.open('w')", "io.open(p, 'r')",
     "os.fdopen(3, 'w')", "subprocess.run(c, text=True)", "TemporaryFile('w')"],
)  # fmt: skip
def test_a_call_without_an_encoding_is_found(call):
    assert texts_without_encoding(call) == [1]


@pytest.mark.parametrize(
    "call",
    ["p.read_text(encoding='utf-8')", "open(p, 'rb')", "p.open('ab')", "sink.open(info, None)", "os.open(p, flags)",
     "subprocess.run(c)", "TemporaryFile()", "subprocess.run(c, text=True, encoding='utf-8')"],
)  # fmt: skip
def test_other_calls_are_left(call):
    assert texts_without_encoding(call) == []
