"""Gives names rows that stay theirs, so that statistics of many tensors live in arrays instead of dictionaries."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from debuggers.errors import HistoryError

Rows = slice | npt.NDArray[np.intp]


class NameIndex:
    """The row of every name met so far; rows are given in the order of meeting and never change, but by ``forget``.

    Attributes:
        names: All names; ``names[row]`` is the name of a row. It grows, and nothing in it moves. A name that was
            forgotten and met again is in it twice, the second time for its new row.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._row_of: dict[str, int] = {}
        self._last_names: tuple[str, ...] = ()
        self._last_rows: Rows = slice(0, 0)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._row_of

    def row(self, name: str) -> int:
        """Returns the row of a name.

        Raises:
            HistoryError: For a name that was never met; the message lists some that were.
        """
        if name not in self._row_of:
            known = ", ".join(self.names[:5]) or "none"
            raise HistoryError(f"nothing was recorded for {name!r}; recorded names are {known}")
        return self._row_of[name]

    def forget(self, names: Iterable[str]) -> None:
        """Has these names get new rows, as where something else goes by them now; the old rows keep their values."""
        for name in names:
            self._row_of.pop(name, None)
        self._last_names = ()

    def rows(self, names: Sequence[str]) -> Rows:
        """Returns the rows of names, new ones included; the same tuple as last time costs nothing.

        Raises:
            HistoryError: When a name appears twice.
        """
        wanted = names if type(names) is tuple else tuple(names)
        if wanted is self._last_names or wanted == self._last_names:
            return self._last_rows
        if len(set(wanted)) != len(wanted):
            twice = next(name for place, name in enumerate(wanted) if name in wanted[:place])
            raise HistoryError(f"the name {twice!r} appears twice in one step; expected each name once")
        for name in wanted:
            if name not in self._row_of:
                self._row_of[name] = len(self.names)
                self.names.append(name)
        rows = np.fromiter((self._row_of[name] for name in wanted), np.intp, len(wanted))
        in_order = len(rows) and rows[0] + len(rows) == rows[-1] + 1 and bool((np.diff(rows) == 1).all())
        self._last_names = wanted
        self._last_rows = slice(int(rows[0]), int(rows[-1]) + 1) if in_order else rows
        return self._last_rows
