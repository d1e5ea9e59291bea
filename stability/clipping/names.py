"""Finds what a configuration says of a parameter, by its name or by patterns."""

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from stability.errors import StabilityError

_Value = TypeVar("_Value")


class NameTable(Generic[_Value]):
    """Values by parameter name or ``fnmatch`` pattern: an exact name wins, then the first pattern that matches."""

    def __init__(self, field: str, entries: Mapping[str, _Value]) -> None:
        """``field`` is what errors call the entries."""
        self._field = field
        self._entries = dict(entries)
        self._found: dict[str, _Value | None] = {}
        self._checked = False

    def check(self, names: Sequence[str]) -> None:
        """Compares the entries with all parameters of a model; later calls do nothing.

        Raises:
            StabilityError: When one matches none of them; names the nearest.
        """
        if self._checked:
            return
        for entry in self._entries:
            if entry not in names and not any(fnmatchcase(name, entry) for name in names):
                near = difflib.get_close_matches(entry, names, n=3, cutoff=0.0)
                raise StabilityError(
                    f"{self._field} names {entry!r}, which matches none of the {len(names)} parameters; the nearest "
                    f"are {', '.join(near)} (a tied parameter has only its first name)"
                )
        self._checked = True

    def find(self, name: str) -> _Value | None:
        """Returns the value for a parameter; None where nothing matches."""
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: str) -> _Value | None:
        if name in self._entries:
            return self._entries[name]
        return next((value for pattern, value in self._entries.items() if fnmatchcase(name, pattern)), None)
