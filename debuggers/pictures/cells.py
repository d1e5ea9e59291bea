"""Text in a terminal's cells: what a name takes there, and the characters that pictures are made of."""

import sys
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size
from tracker_adapters.terminal_text import printable_line

from debuggers.pictures.names import shortened


@dataclass(frozen=True, slots=True)
class Characters:
    """What pictures are drawn with.

    Attributes:
        bars: Parts of a cell from the left, from nothing to full.
        levels: Parts of a cell from the bottom, for lines of one row.
        shades: From the smallest value to the largest.
        wall, floor, corner: The axes.
        mark: Where a value is not finite.
        cut: At the end of a text that was cut.
        braille: Whether a cell has 2 × 4 dots.
    """

    bars: str
    levels: str
    shades: str
    wall: str
    floor: str
    corner: str
    mark: str
    cut: str
    braille: bool


UNICODE = Characters(" ▏▎▍▌▋▊▉█", "▁▂▃▄▅▆▇█", "·░▒▓█", "│", "─", "└", "×", "…", True)
_FEWEST_OF_A_NAME = 8
ASCII = Characters(" #", "_.-=#", ".:-=+*#%@", "|", "-", "+", "!", "~", False)


def characters_for(unicode: bool | None, stream: Any = None) -> Characters:
    """Returns the characters to draw with: by choice, or by what a stream's encoding can say.

    Args:
        unicode: Whether to use block and Braille characters; None asks the stream.
        stream: Where the picture will be written; standard output by default.
    """
    if unicode is None:
        encoding = getattr(sys.stdout if stream is None else stream, "encoding", None) or "ascii"
        try:
            f"{UNICODE.bars}{UNICODE.levels}{UNICODE.shades}│─└×…⣿".encode(encoding)
        except (UnicodeEncodeError, LookupError):
            unicode = False
        else:
            unicode = True
    return UNICODE if unicode else ASCII


def cells(text: str) -> int:
    """Returns how many cells a text takes: two for a wide character, none for one that combines."""
    return cell_len(text)


def fitted(text: str, width: int, characters: Characters, *, right: bool = False) -> str:
    """Returns a text as one line of exactly ``width`` cells: filled with blanks, or cut in the middle, which is marked.

    One with characters of two cells is cut at its end.

    Control characters are shown as Python writes them; where only ASCII can be shown, so are all others.
    """
    if width <= 0:
        return ""
    line = printable_line(text)
    if not characters.braille:
        line = line.encode("ascii", "backslashreplace").decode()
    length = cell_len(line)
    if length == len(line) > width > _FEWEST_OF_A_NAME:
        return shortened(line, width, characters.cut)
    if length > width:
        return set_cell_size(line, width - 1) + characters.cut
    blanks = " " * (width - length)
    return blanks + line if right else line + blanks
