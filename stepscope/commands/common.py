"""What the commands share: errors in one line, and a console that fits where it prints."""

import io
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from tracker_adapters.errors import StepscopeError
from tracker_adapters.terminal_text import printable

USAGE_ERROR = 2
INTERRUPTED = 130


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turns this project's exceptions and those of disks into one line on standard error and exit code 2.

    Ctrl-C ends a command with exit code 130.
    """

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except StepscopeError as error:
            _fail(str(error))
        except sqlite3.Error as error:
            _fail(f"cannot read a run's store: {error}")
        except BrokenPipeError:  # whoever read the output has left; click ends the command quietly
            raise
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KeyboardInterrupt:
            click.echo("stepscope: interrupted", err=True)
            sys.exit(INTERRUPTED)

    return wrapped


def _fail(message: str) -> NoReturn:
    echo(f"stepscope: {' '.join(message.split())}", err=True)
    sys.exit(USAGE_ERROR)


def show_every_character() -> None:
    """Has what the locale cannot write shown as an escape, where a command would end in an error.

    What a command prints where the stream was closed goes nowhere.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.StringIO())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class SafeConsole(Console):
    """A console on which text that was read from a run does nothing: its control characters are shown."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns what a text, a cell or a title looks like."""
        return super().render_str(printable(text), **options)


def console() -> Console:
    """Returns a console for standard output."""
    # In a pipe there is no terminal to fit into: cutting names off would make them useless to grep.
    return SafeConsole() if sys.stdout.isatty() else SafeConsole(width=200)


def echo(text: object, *, err: bool = False) -> None:
    """Prints text that may hold something read from a run; what it would do to a terminal is shown instead."""
    click.echo(printable(str(text)), err=err)


def say_unmatched(patterns: Iterable[str]) -> None:
    """Says on standard error which names and patterns matched nothing."""
    for pattern in patterns:
        click.echo(f"stepscope: no name matches {pattern!r}", err=True)


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """Yields a function that shows how far a command is, in one line of standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with SafeConsole(stderr=True).status("") as status:
        yield lambda text: status.update(escape(text))


def _ranks(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | str:
    if text is None or text == "all":
        return "all"
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} are not ranks; expected numbers such as 0,1") from None


ranks_option = click.option("--ranks", metavar="RANK,...", callback=_ranks, help="Only these ranks [all].")
"""An option ``ranks``: ``"all"`` or a tuple of int."""
