"""How long a caller of a run is willing to wait."""

import threading
from sys import float_info
from typing import Annotated

from msgspec import Meta
from tracker_adapters.errors import RunError
from tracker_adapters.values.checked_values import check_value

MAX_TIMEOUT_S = threading.TIMEOUT_MAX / 2
"""What waiting without a limit means: threads cannot wait for infinity."""

# The bound refuses NaN, which keeps none.
_Seconds = Annotated[float, Meta(ge=-float_info.max, description="seconds as a number")]


def checked_timeout(timeout: float) -> float:
    """Returns seconds that a thread can wait, from 0 on; infinity becomes ``MAX_TIMEOUT_S``.

    Raises:
        RunError: For NaN and for what is no number.
    """
    check_value("timeout", timeout, _Seconds, RunError)
    return min(max(0.0, timeout), MAX_TIMEOUT_S)
