"""Reads the pages of an epoch: each datapoint's debug outputs, one page open at a time. Needs no torch."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from debuggers.errors import PageError
from debuggers.page_files.index import PageRecord, read_index
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.page_files.loading import load_page, load_page_of
from debuggers.page_files.saving import write_page


class PageReader(Mapping[int, dict[str, Any]]):
    """The datapoints in a folder of pages: ``reader[idx]`` is ``{debugger_name: outputs}``.

    Only the page that holds the datapoint is opened, memory-mapped, after its size and checksum were
    compared with the index. Arrays are read-only. A datapoint that was recorded twice is shown as it was last
    recorded. The reader sees the pages that were finished when it was made.
    """

    def __init__(
        self, folder: str | Path, *, limits: PageLimits = LIMITS, records: Sequence[PageRecord] | None = None
    ) -> None:
        """Reads the index of a folder.

        Args:
            folder: Holds ``page_<n>.pkl`` files, such as ``epoch_4/debugger``. It may be a link; links in it are not
                followed.
            limits: The limits beyond which a page is refused.
            records: The pages, in place of what an index says: ``page`` is then a path below the folder, as of the
                pages in a run's folder.

        Raises:
            PageError: When the folder does not exist.
        """
        self.folder = Path(folder)
        self.limits = limits
        self.records: tuple[PageRecord, ...] = tuple(read_index(self.folder, limits) if records is None else records)
        self._page_of = {idx: record for record in self.records for idx in record.datapoints}
        self._open_page: tuple[str, dict[int, dict[str, Any]]] = ("", {})

    def __len__(self) -> int:
        return len(self._page_of)

    def __iter__(self) -> Iterator[int]:
        return iter(self._page_of)

    def __contains__(self, idx: object) -> bool:
        return idx in self._page_of

    def __getitem__(self, idx: int) -> dict[str, Any]:
        record = self._page_of[idx]
        name, page = self._open_page
        if name != record.page:
            page = load_page_of(self.folder, record.page, size=record.size, sha256=record.sha256, limits=self.limits)
            self._open_page = (record.page, page)
        if idx not in page:
            raise PageError(f"{self.folder / record.page}: has no datapoint {idx}, which its index says it has")
        return page[idx]


__all__ = ["PageError", "PageLimits", "PageReader", "PageRecord", "load_page", "read_index", "write_page"]
