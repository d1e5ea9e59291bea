"""Numbers of bytes as people write them: ``"10 GB"``."""

import re
from math import inf

from tracker_adapters.errors import RunError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(what: str, size: object, *, at_least: int = 1) -> int:
    """Returns a number of bytes.

    Args:
        what: What the size is, for messages.
        size: An integer, or a text such as ``10GB``, ``1.5 GiB`` or ``500000``; kB, MB, GB and TB are powers of 1000.
        at_least: The smallest number that makes sense.

    Raises:
        RunError: For anything else, or less than ``at_least``.
    """
    number: float | None = None
    if isinstance(size, int) and not isinstance(size, bool):
        number = size
    elif isinstance(size, str) and (found := _SIZE.fullmatch(size)) and found[2].upper() in _UNITS:
        number = float(found[1]) * _UNITS[found[2].upper()]
    if number is None or not at_least <= number < inf:
        raise RunError(
            f"{what} is {size!r}; expected bytes as an integer or such as '10GB', at least {format_bytes(at_least)}"
        )
    return int(number)


def format_bytes(size: float) -> str:
    """Returns a number of bytes for people, in powers of 1000: ``1.9 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
