"""Remembers which exceptions were handled without keeping them: their tracebacks would keep all locals alive."""

from itertools import count

_MARK = "_stepscope_seen"
_numbers = count()


class SeenErrors:
    """Marks the exceptions themselves: those of Python's own classes take no weak references.

    The mark is of plain numbers, so that an exception can be pickled, and read where there is no stepscope.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)

    def __contains__(self, error: BaseException) -> bool:
        return self._number in vars(error).get(_MARK, ())

    def add(self, error: BaseException) -> None:
        """Marks an exception as handled."""
        vars(error).setdefault(_MARK, set()).add(self._number)
