"""W&B's ``config``: the run's configuration, by keys and by attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stepscope.errors import ConfigError


class Config:
    """A run's configuration, as W&B's: a value that is there changes only with ``allow_val_change``."""

    def __init__(
        self, tell: Callable[[dict[str, Any]], None], known: Mapping[str, Any], *, may_change: bool = False
    ) -> None:
        """``tell`` is given what was added to ``known`` or changed."""
        object.__setattr__(self, "_items", dict(known))
        object.__setattr__(self, "_tell", tell)
        object.__setattr__(self, "_may_change", may_change)

    def update(self, d: Any, allow_val_change: bool | None = None) -> None:
        """Adds entries of a mapping, or of an ``argparse.Namespace``.

        Raises:
            ConfigError: When one is there with another value, unless ``allow_val_change`` is true.
        """
        given = {str(key).strip("-"): value for key, value in parsed(d).items()}
        if not (self._may_change if allow_val_change is None else allow_val_change):
            for key, value in given.items():
                if key in self._items and not _same(self._items[key], value):
                    raise ConfigError(
                        f"config {key!r} is {self._items[key]!r} and was to become {value!r}; "
                        "expected config.update(..., allow_val_change=True)"
                    )
        if given:
            self._tell(given)
            self._items.update(given)

    def setdefaults(self, d: Any) -> None:
        """Adds entries that are not there yet."""
        self.update({key: value for key, value in parsed(d).items() if key not in self._items})

    def keys(self) -> list[str]:
        """Returns the names."""
        return list(self._items)

    def items(self) -> list[tuple[str, Any]]:
        """Returns the names with their values."""
        return list(self._items.items())

    def get(self, *args: Any) -> Any:
        """Returns a value, or a default."""
        return self._items.get(*args)

    def as_dict(self) -> dict[str, Any]:
        """Returns a copy."""
        return dict(self._items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__") or key not in self._items:
            raise AttributeError(f"config has no {key!r}; there are {', '.join(self._items) or 'no entries yet'}")
        return self._items[key]

    def __setattr__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


def parsed(given: Any) -> dict[str, Any]:
    """Returns what ``config=`` and ``config.update`` take, as a dict.

    Raises:
        ConfigError: For anything but a mapping, a namespace or None, such as the path of a YAML file.
    """
    if given is None:
        return {}
    if isinstance(given, Config):
        return given.as_dict()
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "__dict__") and not isinstance(given, type):  # such as a Namespace of argparse
        return dict(vars(given))
    raise ConfigError(f"config is {type(given).__name__} {given!r:.80}; expected a mapping or an argparse.Namespace")


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other) or bool(one != one and other != other)  # noqa: PLR0124 - NaN
    except (TypeError, ValueError):  # arrays
        return repr(one) == repr(other)
