"""W&B's ``summary``: the last value of each name, or another one, and what a script sets itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from stepscope.compat.wandb.data_types import DataType
from stepscope.errors import ConfigError

_AGGREGATES = ("min", "max", "mean", "first", "last", "best", "copy", "none")


@dataclass(frozen=True, slots=True)
class Metric:
    """What ``define_metric`` returns: how a name, or those of a pattern such as ``val/*``, is summed up."""

    name: str
    step_metric: str | None = None
    summary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for word in self.summary:
            if word not in _AGGREGATES:
                raise ConfigError(f"define_metric: summary has {word!r}; expected of {', '.join(_AGGREGATES)}")


class Summary:
    """A mapping of names to values, by keys and by attributes."""

    def __init__(self) -> None:
        object.__setattr__(self, "_shown", {})
        object.__setattr__(self, "_given", {})
        object.__setattr__(self, "_metrics", [])
        object.__setattr__(self, "_aggregates", {})

    def define(self, metric: Metric) -> None:
        """Adds a rule for names; of several the last one counts."""
        self._metrics.insert(0, metric)

    def follow(self, row: Mapping[str, Any]) -> None:
        """Takes a row of the history; numbers alone are aggregated."""
        for name, value in row.items():
            if isinstance(value, DataType):
                continue
            wanted = next((set(one.summary) for one in self._metrics if fnmatchcase(name, one.name)), set())
            if not wanted or wanted & {"last", "copy"}:
                self._shown[name] = value
            if wanted and isinstance(value, float) and not math.isnan(value):
                self._aggregate(name, wanted, value)

    def _aggregate(self, name: str, wanted: set[str], value: float) -> None:
        seen = self._aggregates.setdefault(name, {"count": 0, "sum": 0.0, "first": value, "min": value, "max": value})
        seen["count"] += 1
        seen["sum"] += value
        seen["min"], seen["max"] = min(value, seen["min"]), max(value, seen["max"])
        seen["mean"], seen["best"] = seen["sum"] / seen["count"], seen["min"]
        for word in wanted & {"min", "max", "mean", "first", "best"}:
            self[f"{name}.{word}"] = seen[word]

    def update(self, d: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        """Sets values."""
        for name, value in {**(d or {}), **values}.items():
            self[name] = value

    def keys(self) -> list[str]:
        """Returns the names."""
        return list(self._shown)

    def items(self) -> list[tuple[str, Any]]:
        """Returns the names with their values."""
        return list(self._shown.items())

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or a default."""
        return self._shown.get(key, default)

    def given(self) -> dict[str, Any]:
        """Returns what the script has set, and what ``define_metric`` asked for, beside the last values."""
        return dict(self._given)

    def __getitem__(self, key: str) -> Any:
        return self._shown[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._shown[key] = self._given[key] = value

    def __delitem__(self, key: str) -> None:
        del self._shown[key]
        self._given.pop(key, None)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__") or key not in self._shown:
            raise AttributeError(f"summary has no {key!r}; there are {', '.join(self._shown) or 'no values yet'}")
        return self._shown[key]

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._shown

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)

    def __repr__(self) -> str:
        return repr(self._shown)
