"""Makes text safe for a terminal: what was read from a run, a tracker or a file may hold escape sequences."""

from __future__ import annotations

import re

# C0 and C1 controls but tab and newline, DEL, surrogates, and the characters that turn the direction of writing.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Returns a text whose control characters are shown as Python writes them, such as ``\x1b``.

    Tabs and newlines stay. What a terminal would obey (colours, titles, moves of the cursor, links) is seen, not done.
    """
    return _UNSAFE.sub(lambda match: repr(match[0])[1:-1], text)


def printable_line(text: str) -> str:
    """Returns ``printable`` in one line: blanks stand for newlines and tabs."""
    return printable(" ".join(text.split()))
