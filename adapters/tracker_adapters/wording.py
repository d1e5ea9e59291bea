"""Numbers in sentences: one thing, several things, how often."""

from collections.abc import Sequence


def counted(count: int, things: str) -> str:
    """Returns such as "1 step" and "1,200 steps"; ``things`` is the plural, which ends in ``s``."""
    return f"1 {things.removesuffix('s')}" if count == 1 else f"{count:,} {things}"


def share_of(part: int, whole: int, things: str) -> str:
    """Returns such as "1 of 20 steps", "all 20 steps", and "the one step"."""
    if part != whole:
        return f"{part:,} of {counted(whole, things)}"
    return f"the one {things.removesuffix('s')}" if whole == 1 else f"all {whole:,} {things}"


def some_of(things: Sequence[object], most: int, *, joint: str = ", ") -> str:
    """Returns the first of several things and how many more there are, such as "a, b and 3 more"."""
    rest = f" and {len(things) - most} more" if len(things) > most else ""
    return joint.join(map(str, things[:most])) + rest


def are(count: int) -> str:
    """Returns the verb that goes with so many things."""
    return "is" if count == 1 else "are"


def times(count: int) -> str:
    """Returns such as "once" and "3 times"."""
    return "once" if count == 1 else f"{count:,} times"
