"""Finds the object of a loop that holds another one, such as the scheduler of an optimizer."""

import gc
from collections.abc import Iterable
from typing import Any, TypeVar

_Kind = TypeVar("_Kind")


def holder_of(held: object, attribute: str, kinds: tuple[type[_Kind], ...]) -> _Kind | None:
    """Returns an object of some classes that has another one in an attribute; None if there is none.

    It asks the garbage collector, which takes tens of milliseconds, or twice as long where the attributes of such an
    object have been listed: call it once or twice in a training. The variables of running functions would be faster to
    look through, but Python up to 3.12 keeps all that they held at that moment alive until the function ends.

    Args:
        held: What is held.
        attribute: The name of the attribute.
        kinds: The classes of who may hold it.
    """
    found: list[Any] = gc.get_referrers(held)
    if (holder := _first(found, held, attribute, kinds)) is not None:
        return holder
    # An object whose attributes were listed has a table of its own, as a module has, whose variables are no attributes.
    tables = [one for one in found if type(one) is dict and one.get(attribute) is held and "__name__" not in one]
    return _first(gc.get_referrers(*tables), held, attribute, kinds) if tables else None


def _first(found: Iterable[Any], held: object, attribute: str, kinds: tuple[type[_Kind], ...]) -> _Kind | None:
    return next((one for one in found if isinstance(one, kinds) and getattr(one, attribute, None) is held), None)
