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


def from_to(first: float, last: float) -> str:
    """Returns such as "from 2.3 to 1.5", with as many digits from three on as tell the two apart, at most eight."""
    texts = [[f"{value:.{digits}g}" for value in (first, last)] for digits in range(3, 9)]
    before, after = next((one for one in texts if one[0] != one[1]), texts[0])
    return f"from {before} to {after}"


def are(count: int) -> str:
    """Returns the verb that goes with so many things."""
    return "is" if count == 1 else "are"


def times(count: int) -> str:
    """Returns such as "once" and "3 times"."""
    return "once" if count == 1 else f"{count:,} times"
