"""Histograms as encoded rows of a W&B history, many at once: a watched training has dozens at each step."""

import math
from collections.abc import Iterator

import msgspec

from tracker_adapters.sink import HistogramColumns, HistogramRows
from tracker_adapters.sinks.wandb.history import Encoded, HistoryEncoder, ItemHeads
from tracker_adapters.sinks.wandb.keys import NAME_KEY, Keys, escape
from tracker_adapters.sinks.wandb.records import json_text, value_items
from tracker_adapters.sinks.wandb.rows import MAX_HISTOGRAM_BINS, NO_BINS, ODD_COUNTS


class HistogramEncoder:
    """Encodes histograms as ``records.history`` would the rows that ``rows.artifact_rows`` gives, one row each."""

    def __init__(self, keys: Keys, history: HistoryEncoder) -> None:
        self._keys = keys
        self._history = history
        self._heads: dict[str, _Heads] = {}

    def encode(self, rows: HistogramRows, first_row: int) -> Iterator[Encoded]:
        """Yields their rows, few at a time, since each is some kilobytes; W&B's own step counts from ``first_row``."""
        start = 0
        for columns in rows.columns.parts():
            part = slice(start, start + len(columns))
            some = HistogramRows(rows.names[part], rows.steps[part], rows.times_ns[part], columns)
            yield self._encode(some, first_row + start)
            start = part.stop

    def _encode(self, rows: HistogramRows, first_row: int) -> Encoded:
        odd = rows.columns.tallies[:, 1 : 1 + len(ODD_COUNTS)].tolist()
        items = [
            self._items(name, *one)
            for name, one in zip(rows.names, zip(_shapes(rows.columns), odd, strict=True), strict=True)
        ]
        encoded = self._history.encode(rows.steps, rows.times_ns, (one.values() for one in items), first_row)
        last = {key: item for one in items for key, item in one.items()}
        return Encoded(encoded.records, last | encoded.last)

    def _items(self, name: str, shape: tuple[bytes, bytes], odd: list[int]) -> dict[str, bytes]:
        heads = self._heads.get(name)
        if heads is None:
            heads = self._heads[name] = _Heads(name, self._keys.of("histogram", name))
        counts, edges = shape
        whole = (heads.kind, heads.counts[len(counts)], counts, heads.edges[len(edges)], edges)
        found = {**heads.name, heads.key: b"".join(whole)}
        if any(odd):
            named = {f"{heads.key} ({word})": count for word, count in zip(ODD_COUNTS, odd, strict=True) if count}
            found |= {key: value_items({key: count}) for key, count in named.items()}
        return found


class _Heads:
    """What of a name's items is the same each time."""

    def __init__(self, name: str, key: str) -> None:
        self.key = key
        self.kind = value_items({key: {"_type": "histogram"}})
        self.counts = ItemHeads(key, "values")
        self.edges = ItemHeads(key, "bins")
        is_cut = escape(name, "histogram") != escape(name)
        self.name = {NAME_KEY: value_items({NAME_KEY: name})} if is_cut else {}


def _shapes(columns: HistogramColumns) -> Iterator[tuple[bytes, bytes]]:
    """The counts and edges of each as JSON."""
    encode = msgspec.json.Encoder().encode
    for edges, counts in columns.shapes(MAX_HISTOGRAM_BINS):
        values, bins = (counts.tolist(), edges.tolist()) if counts.size else NO_BINS
        # The outer edges are the extremes, which an artifact may lack.
        plain = math.isfinite(bins[0]) and math.isfinite(bins[-1])
        yield encode(values), encode(bins) if plain else json_text(bins).encode()
