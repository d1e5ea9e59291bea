"""How long a caller of a run is willing to wait."""

from __future__ import annotations

import math
import threading

from tracker_adapters.errors import RunError

MAX_TIMEOUT_S = threading.TIMEOUT_MAX / 2
"""What waiting without a limit means: threads cannot wait for infinity."""


def checked_timeout(timeout: float) -> float:
    """Returns seconds that a thread can wait, from 0 on; infinity becomes ``MAX_TIMEOUT_S``.

    Raises:
        RunError: For NaN and for what is no number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or math.isnan(timeout):
        raise RunError(f"timeout is {timeout!r}; expected seconds as a number")
    return min(max(0.0, timeout), MAX_TIMEOUT_S)
