"""A batch: consecutive artifacts that a sink receives together, as columns by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import KINDS, Alert, Artifact, Curve, File, Histogram, Image, Page, Scalar, Table, Text
from tracker_adapters.histograms.columns import HistogramColumns

A = TypeVar("A", bound=Artifact)


@dataclass(frozen=True, slots=True)
class ScalarColumns:
    """Scalars as columns of one length n, by ascending sequence number.

    ``seqs``, ``steps`` and ``times_ns`` are int64, ``values`` float64, ``names`` a list of str.
    """

    seqs: npt.NDArray[np.int64]
    names: Sequence[str]
    steps: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, scalars: Sequence[tuple[int, Scalar]]) -> ScalarColumns:
        """Returns the columns of ``(sequence number, scalar)`` pairs."""
        return cls(
            seqs=np.array([seq for seq, _ in scalars], dtype=np.int64),
            names=[scalar.name for _, scalar in scalars],
            steps=np.array([scalar.step for _, scalar in scalars], dtype=np.int64),
            times_ns=np.array([scalar.time_ns for _, scalar in scalars], dtype=np.int64),
            values=np.array([scalar.value for _, scalar in scalars], dtype=np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRows(Sequence[Histogram]):
    """Histograms as columns of one length n; ``rows[i]`` builds one as an artifact.

    ``steps`` and ``times_ns`` are int64 (n,).
    """

    names: Sequence[str]
    steps: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64]
    columns: HistogramColumns

    @classmethod
    def of(cls, histograms: Sequence[Histogram]) -> HistogramRows:
        """Returns histograms as columns, in their order."""
        if isinstance(histograms, cls):
            return histograms
        return cls(
            names=[one.name for one in histograms],
            steps=np.array([one.step for one in histograms], np.int64),
            times_ns=np.array([one.time_ns for one in histograms], np.int64),
            columns=HistogramColumns.of(histograms),
        )

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Histogram: ...
    @overload
    def __getitem__(self, index: slice) -> list[Histogram]: ...
    def __getitem__(self, index: int | slice) -> Histogram | list[Histogram]:
        """Returns one histogram, or a list of those in a slice."""
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        return self.columns.histogram(row, self.names[row], step=int(self.steps[row]), time_ns=int(self.times_ns[row]))


@dataclass(frozen=True, slots=True)
class Column(Generic[A]):
    """Artifacts of one kind with their sequence numbers, ascending."""

    seqs: Sequence[int] = ()
    artifacts: Sequence[A] = ()

    def __len__(self) -> int:
        return len(self.artifacts)

    def __bool__(self) -> bool:
        return bool(self.artifacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """All artifacts from ``first_seq`` to ``last_seq`` of one attempt, each exactly once.

    Paths of pages and files are absolute and point into the run's folder. ``absent`` counts those that compaction took
    away before this reader came, ``unreadable`` those that are damaged or gone otherwise, such as with a file.
    """

    first_seq: int
    last_seq: int
    attempt: int = 1
    absent: int = 0
    unreadable: int = 0
    scalars: ScalarColumns = field(default_factory=lambda: ScalarColumns.of(()))
    histograms: Column[Histogram] = Column()
    images: Column[Image] = Column()
    texts: Column[Text] = Column()
    alerts: Column[Alert] = Column()
    tables: Column[Table] = Column()
    pages: Column[Page] = Column()
    files: Column[File] = Column()
    curves: Column[Curve] = Column()

    def __len__(self) -> int:
        return len(self.scalars) + sum(len(column) for column in self.columns())

    def columns(self) -> list[Column[Artifact]]:
        """Returns the columns of all kinds but scalars."""
        return [value for spec in fields(self) if isinstance(value := getattr(self, spec.name), Column)]

    def singles(self) -> list[tuple[int, Artifact]]:
        """Returns what is neither scalar nor histogram, each with its sequence number, by that."""
        found = [
            row
            for column in self.columns()
            if column is not self.histograms
            for row in zip(column.seqs, column.artifacts, strict=True)
        ]
        return sorted(found, key=lambda row: row[0])

    @classmethod
    def of(cls, artifacts: Sequence[Artifact], *, first_seq: int = 1, attempt: int = 1) -> Batch:
        """Returns a batch of ``artifacts``, numbered from ``first_seq`` in their order."""
        rows: dict[str, list[tuple[int, Any]]] = {kind: [] for kind in KINDS}
        for seq, artifact in enumerate(artifacts, start=first_seq):
            rows[artifact.kind].append((seq, artifact))
        scalars = ScalarColumns.of(rows.pop(Scalar.kind))
        columns: dict[str, Any] = {
            f"{kind}s": Column(*zip(*found, strict=True)) for kind, found in rows.items() if found
        }
        last_seq = first_seq + len(artifacts) - 1
        return cls(first_seq=first_seq, last_seq=last_seq, attempt=attempt, scalars=scalars, **columns)
