"""Text for the person at the terminal: made safe, since it may have been read from a run, and written to be seen."""

import logging
import re
import sys

# C0 and C1 controls but tab and newline, DEL, surrogates, and the characters that turn the direction of writing.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


_log = logging.getLogger(__name__)


def say(line: str, *, rank: int = 0) -> None:
    """Writes a line to standard error, after the project's name and any rank but the first; never raises.

    Standard output is the training script's. Where there is no standard error (a service, a window without a console),
    it was closed, or nobody reads it any more, the line goes to the log.
    """
    text = f"stepscope{f' rank {rank}' if rank else ''}: {printable(in_one_line(line))}\n"
    try:
        try:
            sys.stderr.write(text)
        except UnicodeEncodeError:  # somebody's own stream, which is strict
            sys.stderr.write(text.encode("ascii", "backslashreplace").decode())
    except Exception:  # whatever stands in the place of the stream
        _log.info("%s", line)


def printable(text: str) -> str:
    r"""Returns a text whose control characters are shown as Python writes them, such as ``\x1b``.

    Tabs and newlines stay. What a terminal would obey (colours, titles, moves of the cursor, links) is seen, not done.
    """
    return _UNSAFE.sub(lambda match: repr(match[0])[1:-1], text)


def in_one_line(text: str) -> str:
    """Returns a text with blanks for line breaks, so that a name in it adds no lines; its indentation stays."""
    return " ".join(text.splitlines())


def printable_line(text: str) -> str:
    """Returns ``printable`` in one line: blanks stand for newlines and tabs."""
    return printable(" ".join(text.split()))
