"""A run at a URL, read on this machine: what a question needs is downloaded when it is asked."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tracker_adapters.artifacts import KINDS, Artifact, File, Page
from tracker_adapters.remote.download import Download
from tracker_adapters.remote.local_copy import Home, read_copy, written_copy
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.store.layout import MANIFEST, WRITER_LOCK, blob_name, rank_folder, segments
from tracker_adapters.store.reading.record import Rank, RunRecord
from tracker_adapters.store.segments.opened import Segment

A = TypeVar("A", bound=Artifact)


class RemoteRecord(RunRecord):
    """What was sealed when it was opened: of a run that still lives, all but the last segment.

    The segments of a rank are downloaded with the first question about it; pages, files and large images with the
    first question about their name or kind. Checksums are verified.
    """

    def __init__(self, download: Download) -> None:
        """Lists what is there."""
        self._download = download
        self._fetched: set[int] = set()
        for path in download.index.files:
            if path.startswith("store/rank_"):
                (download.folder / path).parent.mkdir(parents=True, exist_ok=True)
        super().__init__(download.folder)

    @property
    def is_live(self) -> bool:
        """Whether a machine wrote to the run in the last minutes."""
        writer = self._download.index.writer
        return writer is not None and writer.is_seen()

    def position(self) -> str:
        """Returns how far the run was copied when it was opened, without a download."""
        entries = sorted(f"{path} {entry.sha256}" for path, entry in self._download.index.files.items())
        return hashlib.sha256("\n".join(entries).encode()).hexdigest()[:16]

    def folder_with(self, rank: int) -> Path:
        """As ``RunRecord`` has it; the segments of the rank are downloaded first."""
        self._fetch_rank(rank)
        return self.path

    def _segments(self, rank: Rank) -> Iterator[tuple[int, Segment]]:
        for number in self.ranks if rank == "all" else (rank,):
            self._fetch_rank(number)
        return super()._segments(rank)

    def _artifacts(self, cls: type[A], name: str, rank: Rank) -> list[A]:
        self._fetch_blobs(cls, rank, name)
        return super()._artifacts(cls, name, rank)

    def artifact(self, kind: str, name: str, seq: int, rank: int = 0) -> Artifact:
        """As ``RunRecord`` has it; the files of that name are downloaded first."""
        if kind in KINDS:
            self._fetch_blobs(KINDS[kind], rank, name)
        return super().artifact(kind, name, seq, rank)

    def _in_order(self, cls: type[A], rank: Rank) -> list[A]:
        if issubclass(cls, (Page, File)):
            self._fetch_blobs(cls, rank, None)
        return super()._in_order(cls, rank)

    def _fetch_rank(self, rank: int) -> None:
        if rank in self._fetched:
            return
        folder = rank_folder(self.path, rank)
        prefix = folder.relative_to(self.path).as_posix()
        listed = {path for path in self._download.index.files if path.startswith(f"{prefix}/segment_")}
        for path in segments(folder):
            if path.relative_to(self.path).as_posix() not in listed:  # compacted since an earlier download
                path.unlink()
        self._download.fetch(listed.__contains__)
        self._fetched.add(rank)

    def _fetch_blobs(self, cls: type[Artifact], rank: Rank, name: str | None) -> None:
        wanted: set[str] = set()
        for _, segment in self._segments(rank):
            wanted.update(map(blob_name, segment.blobs_of(cls.kind, name)))
        self._download.fetch(wanted.__contains__)


def read_remote(url: str) -> RunRecord:
    """Opens the run at a URL for reading.

    Where this machine wrote it last, its own copy is read, which also has what is not sealed yet.

    Raises:
        NotARunError: When there is no run.
        RunError: When the place cannot be reached.
        MissingPackageError: When a package that the URL needs is not installed.
    """
    place = RemotePlace(url)
    own = written_copy(place.url)
    home = Home.load(own)
    if home is not None and (rank_folder(own, 0) / WRITER_LOCK).exists() and (own / MANIFEST).exists():
        try:
            download = Download(place, read_copy(place.url))
        except Exception:  # not reachable, or nothing of it was copied yet
            return RunRecord(own)
        return RunRecord(own) if home.is_newest(download.index.last_writer) else RemoteRecord(download)
    return RemoteRecord(Download(place, read_copy(place.url)))


def localize(url: str) -> RunRecord:
    """Downloads the whole run at a URL; the record's ``path`` is its folder on this machine."""
    record = read_remote(url)
    if isinstance(record, RemoteRecord):
        record._download.fetch()
    return record
