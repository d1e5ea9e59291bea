"""Markdown for the kinds that TensorBoard can only show as text: alerts, tables, pages and files."""

import html
import re
from collections.abc import Sequence
from itertools import islice

from tracker_adapters.artifacts import Alert, Artifact, File, Page, Table, Text

MAX_ROWS = 500
"""Rows of a table or page that are shown; TensorBoard renders all of them at each request."""

# Underscores inside a word are plain text to TensorBoard's Markdown, as in conv_1.
_SYNTAX = re.compile(r"[\\`*\[\]|]|(?<![^\W_])_|_(?![^\W_])")


def to_markdown(artifact: Artifact, view_command: str = "") -> str:
    """Returns what the text plugin is given: a text as it is, another kind in a readable form.

    An alert ends with ``view_command``, which opens the run in the viewer, unless it is empty.
    """
    match artifact:
        case Text():
            return artifact.text
        case Alert():
            command = f"\n\nIn the viewer:\n\n{_code(view_command.splitlines())}" if view_command else ""
            return f"**{artifact.level.upper()}**{_message(artifact.message)}{command}"
        case Table():
            return _table(artifact.columns, artifact.rows)
        case Page():
            rows = [(entry.datapoint, entry.debugger, entry.summary) for entry in artifact.contents]
            return f"{_file_line(artifact)}\n\n{_table(('datapoint', 'debugger', 'output'), rows)}"
        case File():
            return f"{_file_line(artifact)}, {escaped(artifact.media_type)}"
        case _:
            raise TypeError(f"no Markdown for {artifact.kind}")


def escaped(text: str) -> str:
    """Returns Markdown on one line that shows ``text`` as it is, HTML included."""
    return _SYNTAX.sub(r"\\\g<0>", html.escape(" ".join(text.splitlines()), quote=False))


def _message(message: str) -> str:
    """One line as it is; several, such as a traceback, as a code block, which four spaces make."""
    lines = message.splitlines()
    if len(lines) < 2:
        return f" {escaped(message)}"
    return f"\n\n{_code(lines)}"


def _code(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _file_line(artifact: File | Page) -> str:
    return f"**{escaped(artifact.filename)}**, {artifact.size} bytes, SHA-256 {artifact.sha256}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [_row(columns), "|" + " --- |" * len(columns)]
    lines += [_row(["" if cell is None else str(cell) for cell in row]) for row in islice(rows, MAX_ROWS)]
    if len(rows) > MAX_ROWS:
        lines += ["", f"… and {len(rows) - MAX_ROWS} more rows"]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
