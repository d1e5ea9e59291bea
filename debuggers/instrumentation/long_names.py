"""Names of parameters and layers that are too long for the names of their series, or cannot be stored."""

import hashlib

from tracker_adapters.values.base import MAX_NAME_LENGTH

MOST_CHARACTERS = MAX_NAME_LENGTH - 200
"""What a name may have; the rest is left to what stands before it, such as a statistic's name and a run's scope."""
_KEPT = 380
"""Characters that are kept of its beginning and of its end."""


def fitting_name(name: str) -> str:
    r"""Returns a name as it is; of one with more than 800 characters the beginning, a digest of it all, and the end.

    NUL and lone surrogates, which no store takes, become what they are written as in Python: ``\x00``, ``\ud800``. So
    a single odd name does not keep all others from being recorded, and different names stay different.
    """
    if not name.isascii():
        name = name.encode(errors="backslashreplace").decode()
    name = name.replace("\0", r"\x00")
    if len(name) <= MOST_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[:_KEPT]}…{digest}…{name[-_KEPT:]}"
