"""A file of debug outputs, with its table of contents."""

import operator
from dataclasses import dataclass, field
from typing import ClassVar

from tracker_adapters.errors import ArtifactError
from tracker_adapters.kinds.files import StoredFile
from tracker_adapters.values.plain import storable
from tracker_adapters.values.png import SIGNATURE

MAX_PREVIEW_BYTES = 64 * 1024
"""The size of a picture in a page's table of contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """One line of a page's table of contents: which debugger kept what for which datapoint.

    ``picture`` is a small one of it, a PNG file of at most 64 kB; empty for none.
    """

    datapoint: int
    debugger: str
    summary: str
    picture: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "datapoint", operator.index(self.datapoint))
            object.__setattr__(self, "debugger", storable(self.debugger))
            object.__setattr__(self, "summary", storable(self.summary))
        except TypeError as error:
            raise ArtifactError(
                f"a page's contents have datapoint {self.datapoint!r}, debugger {self.debugger!r} and summary "
                f"{self.summary!r}; expected an int and two str"
            ) from error
        if self.picture and not (
            isinstance(self.picture, bytes)
            and self.picture.startswith(SIGNATURE)
            and len(self.picture) <= MAX_PREVIEW_BYTES
        ):
            raise ArtifactError(
                f"a page's contents have a picture of type {type(self.picture).__name__} and length "
                f"{len(self.picture)}; expected a PNG file of at most {MAX_PREVIEW_BYTES} bytes"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(StoredFile):
    """A file of per-datapoint debug outputs, as ``File`` has it, with its table of contents."""

    kind: ClassVar[str] = "page"
    contents: tuple[PageEntry, ...] = ()

    def __post_init__(self) -> None:
        StoredFile.__post_init__(self)
        object.__setattr__(self, "contents", tuple(self.contents))
        for entry in self.contents:
            if not isinstance(entry, PageEntry):
                raise ArtifactError(f"page {self.name!r}: contents hold {entry!r}; expected PageEntry objects")
