"""Remembers sequences of names that were checked: a producer gives the same few again at each step."""

from collections.abc import Sequence

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.base import check_name

MAX_SEQUENCES = 256


class NameSequences:
    """Checks sequences of names and puts a scope before each. Used from any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    def full(self, kind: str, scope: str, names: Sequence[str]) -> tuple[str, ...]:
        """Returns the full names; the same object for the same names, as long as it is remembered.

        Args:
            kind: The kind of artifact, for messages.
            scope: What stands before each name.
            names: The names without it.

        Raises:
            ArtifactError: For a single str, and for a name that ``check_name`` refuses.
        """
        if isinstance(names, (str, bytes)):
            raise ArtifactError(f"{kind}s: the names are {names!r}; expected a sequence of str")
        key = (scope, tuple(names))
        try:
            found = self._known.get(key)
        except TypeError:  # something that cannot be hashed, and so is no str
            found = None
        if found is None:
            found = tuple(check_name(kind, scope + check_name(kind, name)) for name in names)
            if len(self._known) >= MAX_SEQUENCES:
                self._known.clear()
            self._known[key] = found
        return found
