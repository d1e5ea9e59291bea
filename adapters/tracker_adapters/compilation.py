"""Compiles functions with numba, where it is installed.

The compiled code is kept in ``__pycache__`` beside the package, else in the user's own cache folder (numba's rule,
``NUMBA_CACHE_DIR`` overrides it): a process compiles only when neither has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compile_cached(function: Callable[..., Any]) -> Any:
    """Returns the function, compiled when it is first called and without the interpreter's lock while it runs.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    import numba

    if numba.config.DISABLE_JIT:
        raise ImportError("NUMBA_DISABLE_JIT is set")
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder is writable
        return numba.njit(**OPTIONS)(function)
