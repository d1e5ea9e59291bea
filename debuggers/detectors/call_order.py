"""Where modules stand in the order in which they are called, which need not be that of the model's definition."""

from collections.abc import Mapping, Sequence


def places_in(order: Sequence[str], modules: Sequence[str]) -> list[int] | None:
    """Returns the place of each module in an order of calls, or of the nearest one above it that is called.

    Args:
        order: Names of modules, in the order of their first calls.
        modules: Those that are looked for.

    Returns:
        None where one of them is not in it: then nothing is known of how they follow each other.
    """
    places = {name: place for place, name in enumerate(order)}
    found = [_place(module, places) for module in modules]
    return None if None in found else [place for place in found if place is not None]


def _place(module: str, places: Mapping[str, int]) -> int | None:
    while module and module not in places:
        module = module.rpartition(".")[0]
    return places.get(module)
