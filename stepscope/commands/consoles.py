"""What the commands print on, which only those import that print tables or how far they are."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text
from tracker_adapters.terminal_text import printable


class SafeConsole(Console):
    """A console on which text that was read from a run does nothing: its control characters are shown."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns what a text, a cell or a title looks like."""
        return super().render_str(printable(text), **options)


def console() -> Console:
    """Returns a console for standard output."""
    # In a pipe there is no terminal to fit into: cutting names off would make them useless to grep.
    return SafeConsole() if sys.stdout.isatty() else SafeConsole(width=200)


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """Yields a function that shows how far a command is, in one line of standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with SafeConsole(stderr=True).status("") as status:
        yield lambda text: status.update(escape(text))
