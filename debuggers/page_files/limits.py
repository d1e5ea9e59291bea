"""Limits for reading a page: a few bytes can describe more objects than fit in memory."""

from dataclasses import dataclass

from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.errors import DebuggerConfigError

_BYTES_AN_OBJECT = 50
_BYTES_AN_OPERATION = 8
MAX_FRAME_BYTES = 16 << 20
"""Python itself writes frames of 64 KB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """The limits beyond which a page is refused.

    Pages that SequentialDebugger writes with ``page_size_mb=100`` stay far below them.

    Attributes:
        file_bytes: The size of the file.
        objects: Containers, arrays, and values that are met again, in the whole page; an object takes about 200 bytes
            of memory. A file of more than 50 times as many bytes may hold one in every 50 bytes.
        operations: Pickle operations; Python carries out about a million a second. A file of more than 8 times as many
            bytes may hold one in every 8. Also the values that a datapoint unfolds to.
        text_bytes: Text and bytes objects, together.
    """

    file_bytes: int = 4 << 30
    objects: int = 2_000_000
    operations: int = 10_000_000
    text_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check_value(name, getattr(self, name), at_least(1), DebuggerConfigError)

    def objects_of(self, nbytes: int) -> int:
        """Returns how many objects a file of so many bytes may hold."""
        return max(self.objects, nbytes // _BYTES_AN_OBJECT)

    def operations_of(self, nbytes: int) -> int:
        """Returns how many operations a file of so many bytes may hold."""
        return max(self.operations, nbytes // _BYTES_AN_OPERATION)


LIMITS = PageLimits()
