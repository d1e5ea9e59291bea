"""A TensorBoard event file: records, appended, or continued after an offset."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from tracker_adapters.errors import StartOver
from tracker_adapters.formats.appended_file import AppendedFile
from tracker_adapters.formats.tfrecords import framed, read_records
from tracker_adapters.safe_files import open_file


class EventFile(AppendedFile):
    """One event file, open for appending."""

    what = "event file"

    @classmethod
    def create(cls, path: Path) -> Self:
        """Makes a new, empty file; raises FileExistsError when there is one."""
        return cls(path, open_file(path.parent, path.name, "xb"))

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yields where each record begins, and its data.

        Raises:
            StartOver: For a checksum that does not fit, or a file that ends inside a record.
        """
        self._stream.flush()
        with open_file(self.path.parent, self.path.name) as stream:
            for offset, data, flaw in read_records(stream):
                if flaw:
                    raise StartOver(f"the event file {self.path} is damaged after byte {offset}")
                yield offset, data

    def append(self, records: Sequence[bytes]) -> None:
        """Adds records in one write; they may stay in memory until ``sync``."""
        self._stream.write(framed(records))
