"""RunRecord: what a run holds, read by name. Needs neither torch nor a tracker."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import Alert, Artifact, Curve, File, Histogram, Image, Page, RunInfo, Table, Text
from tracker_adapters.batch import HistogramRows
from tracker_adapters.errors import RunError
from tracker_adapters.store import layout
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.manifest import Manifest, load_manifest
from tracker_adapters.store.reading.attempt_times import AttemptTimes, attempt_times
from tracker_adapters.store.reading.file_damage import SOUND, damage_of
from tracker_adapters.store.reading.listing import Listed, count_artifacts, list_artifacts, one_artifact
from tracker_adapters.store.reading.many_series import read_scalars
from tracker_adapters.store.reading.new_names import NewName, read_new_names
from tracker_adapters.store.reading.notebook_view import NotebookView
from tracker_adapters.store.reading.ranges import ScalarRanges, read_many_ranges, read_ranges
from tracker_adapters.store.reading.scalar_rows import RowsWanted, ScalarRows, read_scalar_rows
from tracker_adapters.store.reading.series_reader import NameInfo, Rank, SeriesReader, naming_the_run, series_number
from tracker_adapters.store.segments.opened import Segment, histogram_rows


@dataclass(frozen=True, slots=True)
class ScalarSeries:
    """One scalar by step: ``steps`` and ``times_ns`` int64, ``values`` float64, all of shape (n,), by step.

    ``ranks`` (int64) is there when several ranks were asked for.
    """

    steps: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.steps)


class RunRecord(NotebookView, SeriesReader):
    """A run as it is stored now; it may still be written. Close it, or use it as a context manager.

    If a step was recorded again after a resume, the latest attempt at that step is returned. Reading a damaged store
    raises RunError.
    """

    @property
    def manifest(self) -> Manifest:
        """What run.json says now; a run whose process died is ``failed``."""
        manifest = load_manifest(self.path)
        if manifest.info.status == "running" and not self.is_live:
            return manifest.with_status("failed")
        return manifest

    @property
    def info(self) -> RunInfo:
        """The run's identity, configuration, tags and status."""
        return self.manifest.info

    @property
    def is_live(self) -> bool:
        """Whether a process is writing to the run."""
        return any(is_locked(layout.rank_folder(self.path, rank) / layout.WRITER_LOCK) for rank in self.ranks)

    def folder_with(self, rank: int) -> Path:
        """Returns the run's folder, where the segments of a rank lie on this machine now."""
        return self.path

    @property
    def lowest_rank(self) -> int:
        """The lowest rank that has a store; 0 if none has."""
        return min(self.ranks, default=0)

    @naming_the_run
    def attempts(self, rank: int = 0) -> list[AttemptTimes]:
        """Returns when each opening of the run began and stored its last artifact, by their numbers."""
        return attempt_times([segment for _, segment in self._segments(rank)])

    def last_number(self, rank: int = 0) -> int:
        """Returns how many artifacts a rank has stored."""
        return self._readers[rank].last_seq() if rank in self._readers else 0

    def damage(self) -> list[str]:
        """Returns why parts of the store were skipped so far, or cannot be read, one sentence each."""
        of_files = SOUND if self.is_live else damage_of(self.path, self.ranks)
        skipped = (str(error) for reader in self._readers.values() for error in reader.damage())
        return [*filter(None, [of_files.text]), *skipped]

    @naming_the_run
    def names_until(self, rank: int = 0) -> tuple[list[NameInfo], int]:
        """Returns ``names``, and the sequence number up to which they count; see ``new_names``."""
        return self._names_until(rank)

    @naming_the_run
    def new_names(self, rank: int, after: int) -> tuple[list[NewName], int]:
        """Returns what a rank has recorded behind a sequence number, and the number up to which was read.

        Of a name there may be several items: counts add up, and the highest last step counts, of equal ones the later.
        """
        return read_new_names((segment for _, segment in self._segments(rank)), after)

    def scalars(self, name: str, rank: Rank = 0) -> ScalarSeries:
        """Returns one scalar's series by step; ``rank="all"`` adds ``.ranks`` and averages nothing.

        Raises:
            ArtifactError: When the run has no scalar of that name.
        """
        columns, order, ranks = self._latest(rank, name, "scalar")
        _, _, _, steps, times_ns, values = columns
        return ScalarSeries(
            steps=np.array(steps, dtype=np.int64)[order],
            times_ns=np.array(times_ns, dtype=np.int64)[order],
            values=np.array(values, dtype=np.float64)[order],  # NULL becomes NaN
            ranks=ranks if rank == "all" else None,
        )

    @naming_the_run
    def many_scalars(self, names: Iterable[str], rank: int = 0) -> dict[str, ScalarSeries]:
        """Returns those of the scalars that a rank has, as ``scalars`` does; many take a fraction of its time.

        Of a scalar whose rows are all damaged there is none.
        """
        found = read_scalars(self.path, rank, names, self._note_damage) if rank in self.ranks else ()
        return {name: ScalarSeries(*columns) for name, columns in found}

    @naming_the_run
    def scalar_rows(self, name: str, rank: int = 0, wanted: RowsWanted | None = None) -> ScalarRows:
        """Returns rows of one scalar as they arrived, those included that a later attempt replaced.

        Args:
            name: The scalar.
            rank: Whose.
            wanted: Which rows; all by default.

        Raises:
            ArtifactError: When the run has no scalar of that name.
        """
        found = [(segment, series_number(segment, "scalar", name)) for _, segment in self._segments(rank)]
        if all(number is None for _, number in found):
            raise self._no_such("scalar", name)

        def sound(segment: Segment, rows: list[Any]) -> list[Any]:
            return self._sound(segment, "scalar", rows)

        return read_scalar_rows(found, wanted or RowsWanted(), sound, self._note_damage)

    @naming_the_run
    def scalar_ranges(self, name: str, rank: int = 0, *, max_ranges: int | None = None) -> ScalarRanges:
        """Returns the roll-ups of one scalar, for long series and heat maps.

        Each covers 256 steps, or more where compaction made them coarser.

        Args:
            name: The scalar.
            rank: Whose.
            max_ranges: Join neighbours, two by two, until at most this many are left; at least 1. The overview of a
                long run is then read from its segments' summaries.

        Raises:
            ArtifactError: When the run has no scalar of that name.
        """
        segments = [
            (segment, number)
            for _, segment in self._segments(rank)
            if (number := series_number(segment, "scalar", name)) is not None
        ]
        if not segments:
            raise self._no_such("scalar", name)
        return read_ranges(segments, max_ranges)

    @naming_the_run
    def many_scalar_ranges(self, names: Iterable[str], rank: int = 0) -> dict[str, ScalarRanges]:
        """Returns the roll-ups of those of the scalars that a rank has, all of one span: 256 steps, or more.

        Where there are very many, their span is 2**14 steps at least. Many take a fraction of the time that
        ``scalar_ranges`` takes for one after the other.
        """
        return read_many_ranges([segment for _, segment in self._segments(rank)], names) if rank in self.ranks else {}

    def histograms(self, name: str, rank: Rank = 0) -> list[Histogram]:
        """Returns the histograms of one name by step."""
        return list(self.histogram_columns(name, rank))

    def histogram_columns(self, name: str, rank: Rank = 0) -> HistogramRows:
        """Returns the histograms of one name by step as columns, which takes a fraction of the time."""
        rows = self._latest_rows(rank, name, "histogram")
        return histogram_rows(rows, [name] * len(rows))

    def images(self, name: str, rank: Rank = 0) -> list[Image]:
        """Returns the images of one name by step."""
        return self._artifacts(Image, name, rank)

    def texts(self, name: str, rank: Rank = 0) -> list[Text]:
        """Returns the texts of one name by step."""
        return self._artifacts(Text, name, rank)

    def tables(self, name: str, rank: Rank = 0) -> list[Table]:
        """Returns the tables of one name by step."""
        return self._artifacts(Table, name, rank)

    def curves(self, name: str, rank: Rank = 0) -> list[Curve]:
        """Returns the curves of one name by step."""
        return self._artifacts(Curve, name, rank)

    @naming_the_run
    def listed(self, kind: str, name: str, rank: int = 0) -> list[Listed]:
        """Returns what a rank has of one name by step, without reading the contents.

        Args:
            kind: One of ``artifacts.KINDS``, but ``scalar`` and ``histogram``.
            name: The name; none is recorded of an unknown one.
            rank: Whose.

        Raises:
            ArtifactError: For another kind.
        """
        entries, damaged = list_artifacts((segment for _, segment in self._segments(rank)), kind, name)
        self._note_damage(damaged)
        return entries

    @naming_the_run
    def counted(self, kind: str, rank: Rank = "all") -> int:
        """Returns how many artifacts of a kind are stored, without reading them: whether there are new ones."""
        return count_artifacts((segment for _, segment in self._segments(rank)), kind)

    @naming_the_run
    def artifact(self, kind: str, name: str, seq: int, rank: int = 0) -> Artifact:
        """Returns the artifact that ``listed`` says has this number.

        Raises:
            ArtifactError: When there is none.
            DamagedError: When it is damaged, or its file is gone.
        """
        return one_artifact((segment for _, segment in self._segments(rank)), kind, name, seq, self.path)

    def alerts(self, rank: Rank = "all") -> list[Alert]:
        """Returns all alerts in order of arrival."""
        return self._in_order(Alert, rank)

    def pages(self, rank: Rank = "all") -> list[Page]:
        """Returns all pages in order of arrival; their paths point into the run's folder."""
        return self._in_order(Page, rank)

    def files(self, rank: Rank = "all") -> list[File]:
        """Returns all files in order of arrival; their paths point into the run's folder."""
        return self._in_order(File, rank)

    def __repr__(self) -> str:
        try:
            info = self.info
            return f"<RunRecord {str(self.path)!r}: {info.name!r}, {info.status}, {len(self.names('all'))} names>"
        except (RunError, OSError) as error:
            return f"<RunRecord {str(self.path)!r}: {error}>"


__all__ = ["NameInfo", "Rank", "RowsWanted", "RunRecord", "ScalarRanges", "ScalarRows", "ScalarSeries"]
