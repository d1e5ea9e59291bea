"""Which datapoints a static export holds: a few of each epoch first, then what changed, then more of them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from stepscope.viewer.export_addresses import Ask, Planned, address, answered, spread

FEW = 12
"""Of each epoch: half of them ones that are wrong, where there are so many, and the same ones in all epochs."""
MANY = 100
"""Of each epoch, where there is room: first those that are wrong."""
QUICK_BYTES = 20_000_000
"""Of an epoch with larger pages, an export that has to end soon does not read what is wrong: that takes seconds."""
MOST_PAIRS = 12
"""Of a run's epochs, whose changes are told: one beside the next, and the last beside the first."""


class RunDatapoints:
    """The datapoints of one run, asked for once."""

    def __init__(self, run: str, ask: Ask, *, quickly: bool) -> None:
        self._run = run
        self._ask = ask
        self._quickly = quickly
        self._few: dict[str, list[int]] = {}
        self._listed: dict[str, list[int]] = {}
        self._wrong: dict[str, list[int]] = {}

    def few(self) -> Planned:
        """The epochs, what is right and wrong in them, and a few datapoints of each, of the last epoch first."""
        epochs = answered(self._ask, address("datapoints", run=self._run)).get("epochs", ())
        for epoch in reversed(epochs):
            yield "datapoints", self._of("datapoints", epoch["key"])
            if self._is_judged(epoch):
                yield "datapoints", self._of("judged", epoch["key"])
            else:
                yield "judgements of epochs", ""
        for epoch in reversed(epochs):
            key = epoch["key"]
            listed = answered(self._ask, self._of("datapoints", key)).get("datapoints", ())
            judged = answered(self._ask, self._of("judged", key)).get("correct", ()) if self._is_judged(epoch) else ()
            wrong = [idx for idx, correct in zip(listed, judged, strict=False) if correct is False]
            same = [idx for idx in next(iter(self._few.values()), ()) if idx in set(listed)]
            chosen = list(dict.fromkeys([*wrong[: FEW // 2], *same, *spread(listed)]))[:FEW]
            self._listed[key], self._wrong[key] = listed, wrong
            order = {idx: place for place, idx in enumerate(listed)}
            self._few[key] = sorted(chosen, key=order.__getitem__)  # a page is opened once
            yield from self._each(key, self._few[key])

    def changes(self) -> Planned:
        """What changed from epoch to epoch, as the page asks for it: either one beside the other.

        An export that has to end soon leaves it out: both epochs would be read as a whole.
        """
        keys = list(self._few)  # the last first
        pairs = dict.fromkeys([*pairwise(keys), *((keys[0], key) for key in keys[-1:] if keys[1:])])
        for one, other in list(pairs)[:MOST_PAIRS]:
            for a, b in ((one, other), (other, one)):
                sides = {"a": self._run, "a_epoch": a, "b": self._run, "b_epoch": b}
                yield "changes of datapoints", "" if self._quickly else address("changes", **sides)
                for idx in self._few[a]:
                    if idx in self._few[b] and not self._quickly:
                        yield "changes of datapoints", address("changes", **sides, idx=idx)

    def many(self) -> Planned:
        """More datapoints, those that are wrong first; the others are left out."""
        for key, listed in self._listed.items():
            few = set(self._few[key])
            others = [idx for idx in dict.fromkeys([*self._wrong[key], *listed]) if idx not in few]
            yield from self._each(key, others[: MANY - FEW])
            for _ in others[MANY - FEW :]:
                yield "datapoints", ""

    def _is_judged(self, epoch: dict[str, Any]) -> bool:
        return not self._quickly or epoch["bytes"] <= QUICK_BYTES

    def _of(self, path: str, epoch: str) -> str:
        return address(path, run=self._run, epoch=epoch)

    def _each(self, epoch: str, chosen: Sequence[int]) -> Planned:
        for idx in chosen:
            place = address("datapoint", run=self._run, epoch=epoch, idx=idx)
            yield "datapoints", place
            for picture in _addresses(answered(self._ask, place)):
                yield "pictures of datapoints", picture


def _addresses(value: Any) -> Iterator[str]:
    """The addresses of pictures in a tree of nodes."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "address" and isinstance(item, str):
                yield item
            else:
                yield from _addresses(item)
    elif isinstance(value, list):
        for item in value:
            yield from _addresses(item)
