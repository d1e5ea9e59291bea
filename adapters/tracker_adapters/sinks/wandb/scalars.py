"""Scalars as encoded rows of a W&B history: the hot path of a long run."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracker_adapters.sink import ScalarColumns
from tracker_adapters.sinks.wandb.history import Encoded, HistoryEncoder, ItemHeads, number_texts
from tracker_adapters.sinks.wandb.keys import Keys

_NOT_IN_JSON = {b"nan": b"NaN", b"inf": b"Infinity", b"-inf": b"-Infinity"}


class ScalarEncoder:
    """Encodes scalars as ``records.history`` would, from heads that are made once for each name."""

    def __init__(self, keys: Keys, history: HistoryEncoder) -> None:
        self._keys = keys
        self._history = history
        self._heads: dict[str, ItemHeads] = {}

    def encode(self, columns: ScalarColumns, first_row: int) -> Encoded:
        """Returns one row for consecutive scalars of one step; a name that comes again starts another row.

        A row has the time of its first scalar, and W&B's own step counts the rows from ``first_row``.
        """
        if not len(columns):
            return Encoded([], {})
        names = columns.names
        items = self._items(names, columns.values)
        starts = _row_starts(names, columns.steps.tolist())
        contents = (items[start:stop] for start, stop in zip(starts, [*starts[1:], len(names)], strict=True))
        rows = self._history.encode(columns.steps[starts], columns.times_ns[starts], contents, first_row)
        return Encoded(rows.records, dict(zip(names, items, strict=True)) | rows.last)

    def _items(self, names: Sequence[str], values: npt.NDArray[np.float64]) -> list[bytes]:
        texts = number_texts(values.tolist())
        if not np.isfinite(values).all():
            texts = [_NOT_IN_JSON.get(text, text) for text in texts]
        heads = self._heads
        for name in set(names).difference(heads):
            heads[name] = ItemHeads(self._keys.of("scalar", name))
        return [heads[name][len(text)] + text for name, text in zip(names, texts, strict=True)]


def _row_starts(names: Sequence[str], steps: Sequence[int]) -> list[int]:
    starts: list[int] = []
    here: set[str] = set()
    current: int | None = None
    for place, (name, step) in enumerate(zip(names, steps, strict=True)):
        if step != current or name in here:
            starts.append(place)
            here = set()
            current = step
        here.add(name)
    return starts
