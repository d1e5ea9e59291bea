"""Which layers a hook's patterns choose."""

import re
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import translate

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.instrumentation.module_selection import NamedModule, select_modules
from debuggers.torch_import import torch
from debuggers.utils import nearest_names


class LayerPatterns:
    """Patterns of layers' names; without any, every name matches.

    A pattern is a regular expression that matches the whole name, such as ``attention.*``, or a pattern as in
    ``fnmatch``, such as ``*.linear1``. A name matches if it does so in either reading.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compiles them.

        Raises:
            DebuggerConfigError: When one is no text, or empty.
        """
        self.patterns = tuple(patterns)
        self._compiled = [_compiled(pattern) for pattern in self.patterns]
        self._known: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        """Whether a name matches any of them."""
        if not self._compiled:
            return True
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= 10_000:
                self._known.clear()
            known = self._known[name] = any(one.fullmatch(name) for ones in self._compiled for one in ones)
        return known

    def modules(self, model: torch.nn.Module) -> list[NamedModule]:
        """Returns the modules of a model that match by any of their names, in its order; without patterns all leaves.

        Raises:
            LayerNotFoundError: When a pattern matches nothing; the message lists the nearest names.
        """
        if not self._compiled:
            return select_modules(model)
        entries = select_modules(model, "*")
        for pattern, compiled in zip(self.patterns, self._compiled, strict=True):
            if not any(one.fullmatch(name) for entry in entries for name in _names(entry) for one in compiled):
                names = [name for entry in entries[1:] for name in _names(entry)]
                raise LayerNotFoundError(
                    f"{entries[0].name} has no layer that matches {pattern!r}; {nearest_names(pattern, names)}"
                )
        return self.present_modules(model)

    def present_modules(self, model: torch.nn.Module) -> list[NamedModule]:
        """Returns what ``modules`` does; a pattern that matches nothing any more chooses nothing."""
        if not self._compiled:
            return select_modules(model)
        return [entry for entry in select_modules(model, "*") if any(map(self, _names(entry)))]


def _names(entry: NamedModule) -> tuple[str, ...]:
    return entry.name, *entry.aliases


def _compiled(pattern: object) -> list[re.Pattern[str]]:
    if not isinstance(pattern, str) or not pattern:
        raise DebuggerConfigError(f"layer pattern {pattern!r}: expected a text, such as 'attention.*'")
    found = [re.compile(translate(pattern))]
    with suppress(re.error):  # such as "*.weight", which only fnmatch reads
        found.append(re.compile(pattern))
    return found
