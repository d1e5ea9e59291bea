"""Long names in little room."""

from collections.abc import Sequence
from itertools import takewhile


def shortened(name: str, most: int, mark: str = "…") -> str:
    """Returns a name in at most ``most`` characters: both ends stay, since what tells names apart may be in either."""
    if len(name) <= most:
        return name
    end = (most - len(mark)) // 2
    return name[: most - len(mark) - end] + mark + (name[-end:] if end else "")


def told_apart(names: Sequence[str], most: int, mark: str = "…") -> list[str]:
    """Returns names in at most ``most`` characters each; those that are longer go without what all of them begin with.

    ``encoder.layers.0.attention.weight`` beside that of layer 1 is ``…0.attention.weight``, so that its number stays.
    """
    long = [name for name in names if len(name) > most]
    start = _shared(min(long), max(long)) if len(set(long)) > 1 else 0
    return [
        shortened(mark + name[start:], most, mark) if start and len(name) > most else shortened(name, most, mark)
        for name in names
    ]


def _shared(first: str, last: str) -> int:
    """How many characters the parts have that two names begin with; of the first and last in order, all names do."""
    parts = zip(first.split(".")[:-1], last.split(".")[:-1], strict=False)
    return sum(len(part) + 1 for part, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
