"""Converts artifacts of a kind that a sink has no rule for to a plainer kind, such as a curve to a table."""

import logging
from dataclasses import replace
from typing import Any

from tracker_adapters.artifacts import KINDS
from tracker_adapters.batch import Batch, Column
from tracker_adapters.sink import BASIC_KINDS, Sink

logger = logging.getLogger(__name__)


class PlainerForms:
    """Replaces artifacts in batches; the first one of each kind is logged."""

    def __init__(self, sink_type: str) -> None:
        self._sink_type = sink_type
        self._told: set[str] = set()

    def apply(self, batch: Batch, sink: Sink) -> Batch:
        """Returns the batch with what ``sink`` has no rule for in its plainer form, under its own number."""
        for kind in sorted(KINDS.keys() - BASIC_KINDS - sink.kinds):
            column = getattr(batch, f"{kind}s")
            if not column:
                continue
            plainer = [one.plainer() for one in column.artifacts]
            name = f"{plainer[0].kind}s"
            if kind not in self._told:
                self._told.add(kind)
                logger.warning("sink %s has no rule for %ss, which it is handed as %s", self._sink_type, kind, name)
            other = getattr(batch, name)
            rows = [*zip(other.seqs, other.artifacts, strict=True), *zip(column.seqs, plainer, strict=True)]
            rows.sort(key=lambda row: row[0])
            changed: dict[str, Any] = {f"{kind}s": Column(), name: Column(*zip(*rows, strict=True))}
            batch = replace(batch, **changed)
        return batch
