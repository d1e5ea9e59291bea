"""What a user wants of a run: kinds, names, ranks and steps."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, Self, TypeAlias

from tracker_adapters.artifacts import KINDS, MAX_STEP
from tracker_adapters.errors import StepscopeError
from tracker_adapters.values.plain import as_tuple

Ranks: TypeAlias = Literal["all"] | Sequence[int]
TABLE_OF_KIND: Mapping[str, str] = {kind: f"{kind}s" for kind in KINDS}
"""The name of the table for each kind: ``scalar`` -> ``scalars``."""
_STEPS = re.compile(r"(\d{0,19}):(\d{0,19})|(\d{1,19})", re.ASCII)


class ExportError(StepscopeError, ValueError):
    """An export is not possible with these arguments; the message names the value and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which artifacts are wanted.

    Attributes:
        kinds: Words such as ``scalar``.
        names: Names or shell patterns (``fnmatch``: ``*`` matches slashes too); none means all names.
        ranks: ``"all"``, or numbers of ranks.
        first_step: The first step that is wanted; ``last_step`` the last one.
        all_attempts: Whether what a later attempt recorded again is kept too.
    """

    kinds: frozenset[str] = frozenset(KINDS)
    names: tuple[str, ...] = ()
    ranks: Literal["all"] | tuple[int, ...] = "all"
    first_step: int = 0
    last_step: int = MAX_STEP
    all_attempts: bool = False
    used: set[str] = field(default_factory=set, compare=False)
    """The names and patterns that matched something so far."""

    @classmethod
    def checked(
        cls,
        *,
        kinds: Iterable[str] = (),
        names: Iterable[str] = (),
        ranks: Ranks = "all",
        steps: str | tuple[int | None, int | None] | None = None,
        all_attempts: bool = False,
    ) -> Self:
        """Builds one from a caller's arguments; see ``export_runs``.

        Raises:
            ExportError: For an argument of the wrong type or value.
        """
        first, last = _checked_steps(steps)
        return cls(
            kinds=frozenset(map(_checked_kind, [kinds] if isinstance(kinds, str) else kinds)) or frozenset(KINDS),
            names=tuple(map(_checked_name, [names] if isinstance(names, str) else names)),
            ranks="all" if ranks == "all" else _checked_ranks(ranks),
            first_step=first,
            last_step=last,
            all_attempts=all_attempts,
        )

    def has_name(self, name: str) -> bool:
        """Whether artifacts of this name are wanted."""
        if not self.names:
            return True
        matching = [pattern for pattern in self.names if pattern == name or fnmatchcase(name, pattern)]
        self.used.update(matching)
        return bool(matching)

    def unused(self) -> tuple[str, ...]:
        """The names and patterns that matched nothing."""
        return tuple(pattern for pattern in self.names if pattern not in self.used)

    def ranks_of(self, existing: Sequence[int]) -> list[int]:
        """Returns those of a run's ranks that are wanted."""
        return [rank for rank in existing if self.ranks == "all" or rank in self.ranks]

    def describe(self) -> dict[str, Any]:
        """Returns the selection as plain values for JSON."""
        return {
            "kinds": sorted(self.kinds),
            "names": list(self.names),
            "ranks": self.ranks if self.ranks == "all" else list(self.ranks),
            "first_step": self.first_step,
            "last_step": self.last_step,
            "all_attempts": self.all_attempts,
        }


def _checked_kind(kind: object) -> str:
    singular = kind.strip().removesuffix("s") if isinstance(kind, str) else ""
    if singular not in KINDS:
        raise ExportError(f"kinds hold {kind!r}; expected some of {', '.join(KINDS)}")
    return singular


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ExportError(f"names hold {name!r}; expected names or shell patterns such as 'gradient_norm/*'")
    return name


def _checked_ranks(ranks: object) -> tuple[int, ...]:
    numbers = (ranks,) if isinstance(ranks, int) else as_tuple(ranks)
    if numbers is None or not all(type(rank) is int and rank >= 0 for rank in numbers):
        raise ExportError(f"ranks are {ranks!r}; expected 'all' or integers from 0")
    return numbers


def _checked_steps(steps: object) -> tuple[int, int]:
    error = ExportError(f"steps are {steps!r}; expected FIRST:LAST such as '100:200', '100:' or ':200', or one step")
    if steps is None:
        return 0, MAX_STEP
    if isinstance(steps, str):
        match = _STEPS.fullmatch(steps.strip())
        if match is None:
            raise error
        low, high = (match[3], match[3]) if match[3] else (match[1], match[2])
        ends: tuple[Any, ...] = (int(low) if low else None, int(high) if high else None)
    elif isinstance(steps, tuple) and len(steps) == 2:
        ends = steps
    else:
        raise error
    if not all(end is None or (type(end) is int and 0 <= end <= MAX_STEP) for end in ends):
        raise error
    first, last = 0 if ends[0] is None else ends[0], MAX_STEP if ends[1] is None else ends[1]
    if first > last:
        raise error
    return first, last
