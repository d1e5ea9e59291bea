"""What ends with a ``with`` block."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """As a context manager it is closed when the block ends, also after an exception."""

    @abstractmethod
    def close(self) -> None:
        """Ends it; calling it again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
