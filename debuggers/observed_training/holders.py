"""Finds the object of a loop that holds another one, such as the scheduler of an optimizer."""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

_Kind = TypeVar("_Kind")


def holder_of(held: object, kinds: tuple[type[_Kind], ...], fits: Callable[[_Kind], bool]) -> _Kind | None:
    """Returns an object of some classes that has another one in an attribute; None if there is none.

    It asks the garbage collector, which takes tens of milliseconds: call it once or twice in a training. The variables
    of running functions would be faster to look through, but Python up to 3.12 keeps all that they held at that moment
    alive until the function ends.

    Args:
        held: What is held.
        kinds: The classes of who may hold it.
        fits: Whether an object of them is the right one.
    """
    found: list[Any] = gc.get_referrers(held)
    tables = [one for one in found if type(one) is dict and any(value is held for value in one.values())]
    if tables:  # an object whose attributes were listed has a table of its own
        found += gc.get_referrers(*tables)
    return next((one for one in found if isinstance(one, kinds) and fits(one)), None)
