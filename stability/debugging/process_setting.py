"""A switch of the process that several sessions may hold at a time, and that is put back after the last of them."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class ProcessSetting(Generic[_Value]):
    """Sets what its holders want together. What the first of them found comes back when the last one lets go.

    Sessions may overlap and end in any order: if each put back what it had found, the last one to end could leave
    the switch as another session had set it.
    """

    def __init__(
        self,
        read: Callable[[], _Value],
        write: Callable[[_Value], None],
        combine: Callable[[Iterable[_Value]], _Value],
    ) -> None:
        """Makes a setting that nobody holds.

        Args:
            read: Returns the switch as it is.
            write: Sets it.
            combine: What is set for the wishes of all holders, at least one.
        """
        self._read, self._write, self._combine = read, write, combine
        self._wanted: dict[object, _Value] = {}
        self._before: _Value | None = None

    def hold(self, holder: object, value: _Value) -> None:
        """Takes a holder's wish, hashed by identity, until ``release``."""
        before = self._read() if not self._wanted else self._before
        self._write(self._combine([*self._wanted.values(), value]))
        self._wanted[holder] = value
        self._before = before

    def release(self, holder: object) -> None:
        """Forgets a holder; one that holds nothing changes nothing."""
        if holder not in self._wanted:
            return
        del self._wanted[holder]
        if self._wanted:
            self._write(self._combine(self._wanted.values()))
        elif self._before is not None:
            self._write(self._before)
