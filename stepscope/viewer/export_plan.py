"""Which addresses a static export answers, in the order of their worth; later ones come from the answers of earlier."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar
from urllib.parse import urlencode

from tracker_adapters.values.metric_names import by_weight

from stepscope.viewer.answers.answer import Answer
from stepscope.viewer.answers.table import ANSWERS

SERIES_WIDTH = 800
"""Pixels of a series in an export: of a longer one there are so many ranges with their extremes."""
MOST_PARTINGS = 15
MOST_RUNS_OF_A_PART = 60
MOST_DATAPOINTS = 12
"""Of each epoch: half of them ones that are wrong, where there are so many."""
T = TypeVar("T")
Ask = Callable[[str], Answer | None]
_OF_KINDS = {"text": "texts", "table": "tables", "curve": "curves", "image": "images"}


def planned(runs: Sequence[str], ask: Ask) -> Iterator[tuple[str, str]]:
    """Yields what of the page an address belongs to, and the address; what a person looks at first comes first.

    An address is empty for what is left out at any rate.

    Args:
        runs: Keys of the runs.
        ask: Answers an address; None where there is no answer, or no more room. What was yielded is asked for at once.
    """
    names = {run: _names(run, ask) for run in runs}
    for address in ("runs", f"positions?{urlencode({'runs': ','.join(runs)})}"):
        yield "overview", address
    for run in runs:
        for path in ("verdict", "alerts", "run", "compare", "causes", "names", "layers"):
            if path in ANSWERS:
                yield "overview", _address(path, **{"runs" if path == "compare" else "run": run})
    yield from _in_turn([_of_kinds(run, names[run]) for run in runs])
    yield from _in_turn([_series(run, names[run]) for run in runs])
    if "layers" in ANSWERS:
        yield from _in_turn([_layers(run, ask) for run in runs])
    if "histograms" in ANSWERS:
        yield from _in_turn([_histograms(run, names[run]) for run in runs])
    if len(runs) <= MOST_RUNS_OF_A_PART:
        for a, b in [(a, b) for a in runs for b in runs if a != b][: 2 * MOST_PARTINGS]:
            yield "comparisons", _address("parting", a=a, b=b)
    yield from _in_turn([_images(run, names[run], ask) for run in runs])
    yield from _in_turn([_datapoints(run, ask) for run in runs])


def _address(path: str, **parameters: Any) -> str:
    return f"{path}?{urlencode(parameters)}"


def _in_turn(parts: Sequence[Iterator[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """One of each run after the other, so that what is left out is left out of all."""
    for row in zip_longest(*parts):
        yield from filter(None, row)


def _json(ask: Ask, address: str) -> Any:
    answer = ask(address)
    return {} if answer is None else json.loads(answer.body)


def _names(run: str, ask: Ask) -> dict[str, list[str]]:
    """The names of each kind of the first rank."""
    found: dict[str, list[str]] = {}
    for entry in _json(ask, _address("names", run=run)).get("names", ()):
        found.setdefault(entry["kind"], []).append(entry["name"])
    return found


def _of_kinds(run: str, names: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for kind, path in _OF_KINDS.items():
        for name in names.get(kind, ()) if path in ANSWERS else ():
            yield path, _address(path, run=run, name=name)
    for path in ("files", "datapoints"):
        if path in ANSWERS:
            yield path, _address(path, run=run)


def _series(run: str, names: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for name in by_weight(names.get("scalar", ())):
        yield "series", _address("series", run=run, name=name, width=SERIES_WIDTH)


def _layers(run: str, ask: Ask) -> Iterator[tuple[str, str]]:
    listed = _json(ask, _address("layers", run=run))
    for statistic in listed.get("statistics", ()):
        name = statistic["key"]
        yield "layers", _address("layers", run=run, statistic=name, width=SERIES_WIDTH)


def _histograms(run: str, names: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for name in names.get("histogram", ()):
        yield "histograms", _address("histograms", run=run, name=name)


def _images(run: str, names: dict[str, list[str]], ask: Ask) -> Iterator[tuple[str, str]]:
    series = [
        [
            _address("image", run=run, name=name, seq=image["seq"])
            for image in _json(ask, _address("images", run=run, name=name)).get("images", ())
        ]
        for name in names.get("image", ())
    ]
    # The last, the first, then what lies between: whatever the limit leaves shows the course of each name.
    for row in zip_longest(*map(_spread, series)):
        yield from (("images", address) for address in row if address)


def _datapoints(run: str, ask: Ask) -> Iterator[tuple[str, str]]:
    epochs = _json(ask, _address("datapoints", run=run)).get("epochs", ())
    for epoch in reversed(epochs):
        yield "datapoints", _address("datapoints", run=run, epoch=epoch["key"])
        yield "datapoints", _address("judged", run=run, epoch=epoch["key"])
    for epoch in reversed(epochs):
        listed = _json(ask, _address("datapoints", run=run, epoch=epoch["key"])).get("datapoints", ())
        judged = _json(ask, _address("judged", run=run, epoch=epoch["key"])).get("correct", ())
        wrong = [idx for idx, correct in zip(listed, judged, strict=False) if correct is False]
        chosen = dict.fromkeys([*wrong[: MOST_DATAPOINTS // 2], *_spread(listed)])
        order = {idx: place for place, idx in enumerate(listed)}
        for idx in sorted(list(chosen)[:MOST_DATAPOINTS], key=order.__getitem__):  # a page is opened once
            address = _address("datapoint", run=run, epoch=epoch["key"], idx=idx)
            yield "datapoints", address
            for picture in _addresses(_json(ask, address)):
                yield "pictures of datapoints", picture
        for _ in listed[MOST_DATAPOINTS:]:
            yield "datapoints", ""


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


def _spread(items: Sequence[T]) -> Iterator[T]:
    """The last, the first, the one between, and so on by halves."""
    count = len(items)
    order, width = [count - 1, 0], 2
    while width < 2 * count:
        order += [place * count // width for place in range(1, width)]
        width *= 2
    yield from (items[place] for place in dict.fromkeys(order) if 0 <= place < count)
