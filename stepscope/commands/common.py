"""What the commands share: errors in one line, and texts that do nothing to a terminal."""

import io
import re
import shutil
import sqlite3
import sys
import textwrap
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

import click
from tracker_adapters.errors import StepscopeError
from tracker_adapters.terminal_text import printable

if TYPE_CHECKING:
    from tracker_adapters.store.reading.record import RunRecord

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


_MARK = re.compile(r"\s*(?:\d+\. |[+-] |where: |try: )?")
"""What stands before the words of a line: see ``cause_lines``."""


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


def echo(text: object, *, err: bool = False) -> None:
    """Prints text that may hold something read from a run; what it would do to a terminal is shown instead."""
    click.echo(printable(str(text)), err=err)


def echo_prose(text: str) -> None:
    """Prints sentences as ``echo`` does; on a terminal, lines longer than it is wide are broken between words."""
    shown = printable(text)
    if sys.stdout is not None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        shown = "\n".join(_broken(line, width) for line in shown.splitlines())
    click.echo(shown)


def _broken(line: str, width: int) -> str:
    """A line in lines of that width, of which the others begin below the words of the first; nothing is hyphenated."""
    hanging = _MARK.match(line)
    indent = " " * (hanging.end() if hanging is not None else 0)
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, expand_tabs=False
    )


def say_damage(record: "RunRecord") -> None:
    """Says on standard error which parts of a run cannot be read, and so are in nothing that is said of it."""
    for sentence in record.damage():
        echo(f"stepscope: {sentence}", err=True)


def say_unmatched(patterns: Iterable[str]) -> None:
    """Says on standard error which names and patterns matched nothing."""
    for pattern in patterns:
        click.echo(f"stepscope: no name matches {pattern!r}", err=True)


def _ranks(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | str:
    if text is None or text == "all":
        return "all"
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} are not ranks; expected numbers such as 0,1") from None


ranks_option = click.option("--ranks", metavar="RANK,...", callback=_ranks, help="Only these ranks [all].")
"""An option ``ranks``: ``"all"`` or a tuple of int."""
