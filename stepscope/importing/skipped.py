"""What an import omits, by reason."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tracker_adapters.errors import StepscopeError


class ImportingError(StepscopeError, ValueError):
    """A folder that cannot be imported; the message names it and says what was expected."""


class NotImportable(Exception):
    """One thing that is omitted; ``args[0]`` is the reason, the same for all of its kind."""


@dataclass
class Skipped:
    """Counts what was omitted by reason, with the first example of each."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        """Counts one."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.examples.setdefault(reason, example)

    def lines(self) -> Iterator[str]:
        """Yields a line for each reason."""
        for reason, count in self.counts.items():
            yield f"{count} x {reason}, such as {self.examples[reason]}"
