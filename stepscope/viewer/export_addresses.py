"""What the parts of an export's plan share: addresses, what they answer, and an order for a few of many."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode

from stepscope.viewer.answers.answer import Answer

Ask: TypeAlias = Callable[[str], Answer | None]
"""Answers an address; None where there is no answer, or no time for it."""
Planned: TypeAlias = Iterator[tuple[str, str]]
"""What of the page an address belongs to, and the address; an empty one for what is left out at any rate."""
T = TypeVar("T")


def address(path: str, **parameters: Any) -> str:
    """Returns an address as the page asks for it; None and rank 0 are not named."""
    named = {name: value for name, value in parameters.items() if value is not None and (name, value) != ("rank", 0)}
    return f"{path}?{urlencode(named)}"


def answered(ask: Ask, place: str) -> Any:
    """Returns what an address answers in JSON; an empty dict where there is no answer."""
    answer = ask(place)
    return {} if answer is None else json.loads(answer.body)


def in_turn(parts: Sequence[Planned]) -> Planned:
    """One of each run after the other, so that what is left out is left out of all."""
    for row in zip_longest(*parts):
        yield from filter(None, row)


def spread(items: Sequence[T]) -> Iterator[T]:
    """The last, the first, the one between, and so on by halves."""
    count = len(items)
    order, width = [count - 1, 0], 2
    while width < 2 * count:
        order += [place * count // width for place in range(1, width)]
        width *= 2
    yield from (items[place] for place in dict.fromkeys(order) if 0 <= place < count)
