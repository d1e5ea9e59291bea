"""Which addresses a static export answers, in the order of their worth; later ones come from the answers of earlier."""

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from tracker_adapters.values.metric_names import by_weight

from stepscope.viewer.export_addresses import Ask, Planned, address, answered, in_turn, spread
from stepscope.viewer.export_datapoints import RunDatapoints

SERIES_WIDTH = 800
"""Pixels of a series in an export: of a longer one there are so many ranges with their extremes."""
MOST_PARTINGS = 15
MOST_RUNS_OF_A_PART = 60
MAIN_SERIES = 64
"""They come before heat maps, histograms, images and datapoints, and the others after them."""
MANY_POINTS = 50_000
"""Of a heat map with more, an export that has to end soon takes the roll-ups."""
MANY_HISTOGRAMS = 5_000
"""A heat map of more, which have no roll-ups, is left out of it."""
_OF_KINDS = {"text": "texts", "table": "tables", "curve": "curves", "image": "images"}


def planned(runs: Sequence[str], ask: Ask, *, quickly: bool = False) -> Planned:
    """Yields what of the page an address belongs to, and the address; what a person looks at first comes first.

    That is each run's first rank and first scope; then comes what the page shows when another one is chosen, more
    datapoints, and what changed in them. An address is empty for what is left out at any rate.

    Args:
        runs: Keys of the runs.
        ask: Answers an address; None where there is no answer, or no more time. What was yielded is asked for at once,
            the part "overview" also when the time is over.
        quickly: Whether to leave out what may take long.
    """
    listed = answered(ask, "runs").get("runs", ())
    ranks = {run["key"]: run["ranks"] or [0] for run in listed}
    plans = [_RunPlan(run, ranks.get(run, [0]), ask, quickly=quickly) for run in runs]
    yield "overview", "runs"
    yield "overview", address("positions", runs=",".join(runs))
    for plan in plans:
        yield from plan.overview()
    yield from in_turn([plan.of_kinds(plan.ranks[0]) for plan in plans])
    yield from in_turn([plan.of_all_ranks() for plan in plans])
    for part in ("main_series", "layers", "histograms"):
        yield from in_turn([getattr(plan, part)(plan.ranks[0]) for plan in plans])
    if len(runs) <= MOST_RUNS_OF_A_PART:
        for a, b in [(a, b) for a in runs for b in runs if a != b][: 2 * MOST_PARTINGS]:
            yield "comparisons", address("parting", a=a, b=b)
    yield from in_turn([plan.images(plan.ranks[0]) for plan in plans])
    datapoints = [RunDatapoints(run, ask, quickly=quickly) for run in runs]
    yield from in_turn([one.few() for one in datapoints])
    yield from in_turn([plan.series(plan.ranks[0]) for plan in plans])
    yield from in_turn([plan.layers_of_scopes(plan.ranks[0]) for plan in plans])
    for part in ("of_kinds", "series", "layers", "layers_of_scopes", "histograms", "images"):
        yield from in_turn([row for plan in plans for row in plan.of_other_ranks(part)])
    yield from in_turn([one.changes() for one in datapoints])
    yield from in_turn([one.many() for one in datapoints])


class _RunPlan:
    """The addresses of one run, by part of the page and rank."""

    def __init__(self, run: str, ranks: Sequence[int], ask: Ask, *, quickly: bool) -> None:
        self.run = run
        self.ranks = ranks
        self._ask = ask
        self._quickly = quickly
        self._named: dict[int, list[dict[str, Any]]] = {}

    def overview(self) -> Planned:
        for path in ("verdict", "alerts", "run", "compare", "causes"):
            yield "overview", address(path, **{"runs" if path == "compare" else "run": self.run})
        yield "overview", address("names", run=self.run, rank=self.ranks[0])
        self._names("", self.ranks[0])
        yield "overview", self._layers_of(self.ranks[0])

    def of_kinds(self, rank: int) -> Planned:
        for kind, path in _OF_KINDS.items():
            for name in self._names(kind, rank):
                yield path, address(path, run=self.run, name=name, rank=rank)

    def of_all_ranks(self) -> Planned:
        for path in ("files", "datapoints"):
            yield path, address(path, run=self.run)

    def series(self, rank: int) -> Planned:
        for name in by_weight(self._names("scalar", rank)):
            yield "series", address("series", run=self.run, name=name, rank=rank, width=SERIES_WIDTH)

    def main_series(self, rank: int) -> Planned:
        yield from islice(self.series(rank), MAIN_SERIES)

    def layers(self, rank: int, scope: str | None = None) -> Planned:
        for statistic in answered(self._ask, self._layers_of(rank, scope)).get("statistics", ()):
            if self._quickly and statistic["histograms"] and statistic["points"] > MANY_HISTOGRAMS:
                yield "layers", ""
                continue
            named = {"run": self.run, "scope": scope, "rank": rank, "statistic": statistic["key"]}
            detail = "overview" if self._quickly and statistic["points"] > MANY_POINTS else None
            yield "layers", address("layers", **named, width=SERIES_WIDTH, detail=detail)

    def layers_of_scopes(self, rank: int) -> Planned:
        for scope in answered(self._ask, self._layers_of(rank)).get("scopes", ()):
            if scope:
                yield "layers", self._layers_of(rank, scope)
                yield from self.layers(rank, scope)

    def histograms(self, rank: int) -> Planned:
        for name in self._names("histogram", rank):
            yield "histograms", address("histograms", run=self.run, name=name, rank=rank)

    def images(self, rank: int) -> Planned:
        series = [self._images_of(name, rank) for name in self._names("image", rank)]
        # The last, the first, then what lies between: whatever the limit leaves shows the course of each name.
        for row in zip_longest(*series):
            yield from (("images", place) for place in row if place is not None)

    def of_other_ranks(self, part: str) -> Iterator[Planned]:
        """A part of each rank but the first, with the list that it belongs to."""
        for rank in self.ranks[1:]:
            yield self._of_rank(part, rank)

    def _of_rank(self, part: str, rank: int) -> Planned:
        yield part, self._layers_of(rank) if part == "layers" else address("names", run=self.run, rank=rank)
        yield from getattr(self, part)(rank)

    def _images_of(self, name: str, rank: int) -> Iterator[str]:
        found = answered(self._ask, address("images", run=self.run, name=name, rank=rank)).get("images")
        if found is None:  # it is counted all the same
            of_name = (one for one in self._named[rank] if (one["kind"], one["name"]) == ("image", name))
            yield from [""] * sum(one["count"] for one in of_name)
            return
        for image in spread(found):
            yield address("image", run=self.run, name=name, rank=rank, seq=image["seq"])

    def _layers_of(self, rank: int, scope: str | None = None) -> str:
        return address("layers", run=self.run, scope=scope, rank=rank)

    def _names(self, kind: str, rank: int) -> list[str]:
        if rank not in self._named:
            self._named[rank] = answered(self._ask, address("names", run=self.run, rank=rank)).get("names", [])
        return [one["name"] for one in self._named[rank] if one["kind"] == kind]
