"""Which artifacts a name has, and one of them, without reading the others: there may be thousands of pictures."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tracker_adapters.artifacts import KINDS, Artifact
from tracker_adapters.errors import ArtifactError, DamagedError, UnsafeFileError
from tracker_adapters.store.reading.attempts import latest
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, DAMAGED, decode_artifact
from tracker_adapters.store.segments.opened import Segment

_LISTED = "seq, attempt, step, time_ns, meta"
_ARTIFACT_KINDS = frozenset(KINDS) - {"scalar", "histogram"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An artifact without its content: ``seq`` names it in its rank; ``meta`` has what is small of it."""

    seq: int
    step: int
    time_ns: int
    meta: dict[str, Any]


def list_artifacts(segments: Iterable[Segment], kind: str, name: str) -> tuple[list[Listed], int]:
    """Returns what one rank has of a name, by step and arrival, and how many damaged rows were left out.

    Of steps that a later attempt recorded again, the latest attempt's.
    """
    rows: list[tuple[Any, ...]] = []
    compacted: list[bool] = []
    found = 0
    for segment in segments:
        listed = segment.connection.execute(
            f"SELECT {_LISTED} FROM artifact WHERE series = (SELECT id FROM series WHERE kind = ? AND name = ?)",
            (_checked(kind), name),
        ).fetchall()
        found += len(listed)
        sound = [(*row[:4], meta) for row in listed if (meta := _meta(row)) is not None]
        rows += sound
        compacted += [segment.level > 0] * len(sound)
    if not rows:
        return [], found
    seqs, attempts, steps, _ = np.array([row[:4] for row in rows], np.int64).T
    order = latest(
        seqs=seqs, attempts=attempts, steps=steps, ranks=np.zeros_like(seqs), compacted=np.array(compacted, np.bool_)
    )
    listed_rows = [rows[place] for place in order.tolist()]
    entries = [Listed(seq=seq, step=step, time_ns=time_ns, meta=meta) for seq, _, step, time_ns, meta in listed_rows]
    return entries, found - len(rows)


def count_artifacts(segments: Iterable[Segment], kind: str) -> int:
    """Returns how many artifacts of a kind lie in the segments, those included that a later attempt replaced."""
    counted = "SELECT count(*) FROM artifact WHERE series IN (SELECT id FROM series WHERE kind = ?)"
    return sum(segment.connection.execute(counted, (_checked(kind),)).fetchone()[0] for segment in segments)


def one_artifact(segments: Iterable[Segment], kind: str, name: str, seq: int, run_folder: Any) -> Artifact:
    """Returns one artifact of a rank.

    Raises:
        ArtifactError: When the rank has no such artifact.
        DamagedError: When it is damaged, or its file is gone.
    """
    for segment in segments:
        row = segment.connection.execute(
            f"SELECT {ARTIFACT_COLUMNS} FROM artifact "
            "WHERE seq = ? AND series = (SELECT id FROM series WHERE kind = ? AND name = ?)",
            (seq, _checked(kind), name),
        ).fetchone()
        if row is not None:
            try:
                return decode_artifact(kind, name, row, run_folder)
            except (FileNotFoundError, UnsafeFileError, *DAMAGED) as error:
                raise DamagedError(f"{kind} {name!r}, number {seq}, is gone or damaged: {error}") from error
    raise ArtifactError(f"{run_folder} has no {kind} {name!r} with the number {seq}")


def _checked(kind: str) -> str:
    if kind not in _ARTIFACT_KINDS:
        raise ArtifactError(f"kind is {kind!r}; expected one of {', '.join(sorted(_ARTIFACT_KINDS))}")
    return kind


def _meta(row: tuple[Any, ...]) -> dict[str, Any] | None:
    """What a row's ``meta`` says; None of a damaged row."""
    if not all(type(value) is int and value >= 0 for value in row[:4]):
        return None
    try:
        return msgspec.json.decode(row[4], type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return None
