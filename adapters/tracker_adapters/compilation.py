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
    numba = _numba()
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder is writable
        return numba.njit(**OPTIONS)(function)


def compile_for_threads(function: Callable[[int], None]) -> int:
    """Compiles a function of one int64 at once, and returns its address: C code may call it in any thread.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    numba = _numba()
    try:
        return int(numba.cfunc("void(int64)", nopython=True, cache=True, error_model="numpy")(function).address)
    except RuntimeError:  # no folder is writable
        return int(numba.cfunc("void(int64)", nopython=True, error_model="numpy")(function).address)


def _numba() -> Any:
    import numba

    if numba.config.DISABLE_JIT:
        raise ImportError("NUMBA_DISABLE_JIT is set")
    return numba
