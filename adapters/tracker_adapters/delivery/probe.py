"""Chooses another artifact to write when a sink refuses one: if it is accepted, the sink works."""

from dataclasses import replace
from typing import Any

from tracker_adapters.artifacts import KINDS
from tracker_adapters.batch import Batch, Column, ScalarColumns
from tracker_adapters.store.reading.tail import MAX_ROWS, StoreReader


def kinds_of(batch: Batch) -> set[str]:
    """Returns the kinds of the artifacts in a batch."""
    return {kind for kind in KINDS if len(getattr(batch, f"{kind}s"))}


def kind_of_single(batch: Batch) -> str:
    """Returns the kind of the one artifact in a batch."""
    (kind,) = kinds_of(batch)
    return kind


def another(reader: StoreReader, suspect: int, kind: str, turn: int) -> tuple[Batch, bool] | None:
    """Returns a batch of one other artifact, and whether it is of the same kind; None when there is no other.

    Artifacts of the same kind take turns with others; those that follow the suspect come before those that precede it.

    Args:
        reader: The run's store.
        suspect: Sequence number of the artifact that was not taken.
        kind: Its kind.
        turn: Another one is chosen each turn, since the next artifact may be refused, too.
    """
    before = min(suspect - 1, MAX_ROWS)
    batches = [reader.read(suspect), reader.read(suspect - 1 - before, max_rows=before) if before else None]
    found = [batch for batch in batches if batch is not None and len(batch)]
    same = [(batch, kind, row) for batch in found for row in _spread(batch, kind)]
    others = [(batch, one, row) for batch in found for one in kinds_of(batch) - {kind} for row in _spread(batch, one)]
    of_same_kind = bool(same) and (turn % 2 == 0 or not others)
    candidates = same if of_same_kind else others
    if not candidates:
        return None
    return _single(*candidates[turn // 2 % len(candidates)]), of_same_kind


def _spread(batch: Batch, kind: str) -> list[int]:
    """Rows of a column, ever farther apart."""
    length = len(getattr(batch, f"{kind}s"))
    return [2**power - 1 for power in range(length.bit_length())]


def _single(batch: Batch, kind: str, row: int) -> Batch:
    column: Any = getattr(batch, f"{kind}s")
    rows = slice(row, row + 1)
    if isinstance(column, ScalarColumns):
        one: Any = ScalarColumns(
            column.seqs[rows], column.names[rows], column.steps[rows], column.times_ns[rows], column.values[rows]
        )
    else:
        one = Column(column.seqs[rows], column.artifacts[rows])
    seq = int(one.seqs[0])
    return replace(Batch(first_seq=seq, last_seq=seq, attempt=batch.attempt), **{f"{kind}s": one})
