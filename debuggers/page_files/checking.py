"""Validates the content of a page: plain values only, nested within the limits of debug outputs."""

from typing import Any

import numpy as np

from debuggers.errors import PageError
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.page_files.unpickling import shown

MAX_LEVELS = 100
MAX_VALUES_A_BYTE = 16
"""What a container shares is counted as often as it is met: a few bytes can unfold to more values than memory holds."""
_CONTAINERS = {dict, list, tuple}
_LEAVES = {bool, int, float, str, bytes, type(None), np.ndarray}


def check_page(page: Any, nbytes: int, limits: PageLimits = LIMITS) -> None:
    """Checks the form of a page.

    Args:
        page: What its file of ``nbytes`` bytes says.
        nbytes: Its size.
        limits: The limits beyond which the page is refused.

    Raises:
        PageError: Unless it is ``{datapoint_idx: {debugger_name: outputs}}``, whose outputs are arrays and plain values
            in dicts, lists and tuples at most 100 levels deep, and unfold to at most 16 values a byte each, and no more
            than ``limits`` has operations.
    """
    if not is_page(page):
        raise PageError("holds no page; expected {datapoint_idx: {debugger_name: outputs}}")
    known: dict[int, tuple[int, int]] = {}
    for idx, outputs in page.items():
        values, _ = _unfolded(outputs, 1, known)
        if values > MAX_VALUES_A_BYTE * nbytes:
            raise PageError(
                f"datapoint {shown(idx)} unfolds to more than {MAX_VALUES_A_BYTE} values a byte of the file"
            )
        if values > limits.operations_of(nbytes):
            raise PageError(f"datapoint {shown(idx)} unfolds to {shown(values)} values; see PageLimits.operations")


def is_page(page: Any) -> bool:
    """Whether something is ``{datapoint_idx: {debugger_name: outputs}}``, whatever the outputs are."""
    return isinstance(page, dict) and all(
        isinstance(idx, int) and isinstance(outputs, dict) and all(isinstance(name, str) for name in outputs)
        for idx, outputs in page.items()
    )


def _unfolded(container: Any, level: int, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values a container unfolds to, and how many levels lie in it; ``known`` has those that were met."""
    found = known.get(id(container))
    if found is None and level <= MAX_LEVELS:
        items = container.values() if isinstance(container, dict) else container
        kinds = set(map(type, items))
        if strange := kinds - _CONTAINERS - _LEAVES:
            raise PageError(f"holds a {min(kind.__name__ for kind in strange)}; expected arrays and plain values")
        values, levels = len(items), 1
        for item in items if kinds & _CONTAINERS else ():
            if type(item) in _CONTAINERS:
                inside = _unfolded(item, level + 1, known)
                values, levels = values + inside[0], max(levels, inside[1] + 1)
        found = known[id(container)] = values, levels
    if found is None or level + found[1] - 1 > MAX_LEVELS:
        raise PageError(f"is nested more than {MAX_LEVELS} levels deep, or contains itself")
    return found
