"""Causes in plain words."""

from collections.abc import Sequence

from tracker_adapters.terminal_text import in_one_line
from tracker_adapters.wording import some_of

from debuggers.diagnosis.cause import Cause

SHOWN = 3
"""Causes that are told with their evidence; of the others only the names."""
_SIGNS = 3


def cause_lines(causes: Sequence[Cause], *, shown: int = SHOWN) -> list[str]:
    """Returns the causes in lines, the most likely first, each with what speaks for and against it, and advice.

    A line break in a name is a blank: names cannot add lines.
    """
    lines = []
    for number, cause in enumerate(causes[:shown], start=1):
        lines.append(f"{number}. {sentence(str(cause))}")
        lines += [f"   + {text}" for text in cause.evidence[:_SIGNS]]
        lines += [f"   - {text}" for text in cause.against[:_SIGNS]]
        if cause.where:
            lines.append(f"   where: {some_of(cause.where, _SIGNS)}")
        if cause.advice:
            lines.append(f"   try: {cause.advice}")
    if len(causes) > shown:
        lines.append("Less likely: " + ", ".join(cause.code for cause in causes[shown:]) + ".")
    return [in_one_line(line) for line in lines]


def sentence(text: str) -> str:
    """Returns a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]
