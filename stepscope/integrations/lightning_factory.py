"""Puts the callback into every Trainer where the environment asks for it; Lightning calls this by its entry point."""

import os
from typing import Any

WATCH_VARIABLE = "STEPSCOPE_WATCH"


def callbacks() -> list[Any]:
    """Returns a ``StepscopeCallback`` if ``STEPSCOPE_WATCH`` is ``1``; else nothing, and imports nothing."""
    if os.environ.get(WATCH_VARIABLE, "") in ("", "0"):
        return []
    from stepscope.integrations.lightning import StepscopeCallback

    callback = StepscopeCallback()
    callback.is_unasked = True
    return [callback]
