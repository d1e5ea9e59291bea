"""What the configurations share: unknown fields and values of another type or range are refused by name."""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Any, Self

from stability.errors import StabilityConfigError

_PLAIN_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "True or False"),
    "int": ((int,), "an integer"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a str"),
}


class Checked:
    """Names the known fields when an unknown one is given, and checks each field's type."""

    def __new__(cls, *_: object, **fields: object) -> Self:
        """Raises TypeError for an unknown field, with the known ones."""
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in fields:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ";"
                raise TypeError(f"{cls.__name__} has no field {name!r}{hint} its fields are {', '.join(known)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            types, expected = _PLAIN_TYPES.get(field.type, ((object,), ""))
            value = getattr(self, field.name)
            if not isinstance(value, types) or (isinstance(value, bool) and types not in ((bool,), (object,))):
                raise wrong(self, field.name, expected)


def check_choice(config: object, name: str, allowed: tuple[str, ...]) -> None:
    """Raises StabilityConfigError unless the field has one of the allowed values."""
    if getattr(config, name) not in allowed:
        raise wrong(config, name, " or ".join(repr(choice) for choice in allowed))


def check_positive(config: object, name: str) -> None:
    """Raises StabilityConfigError unless the field is above 0; infinity is allowed."""
    value = getattr(config, name)
    if math.isnan(value) or value <= 0:
        raise wrong(config, name, "a number above 0")


def check_config(name: str, value: object, kind: type) -> None:
    """Raises StabilityConfigError unless an argument is of the kind that its name says."""
    if not isinstance(value, kind):
        raise StabilityConfigError(f"{name} is {value!r}; expected a {kind.__name__}")


def wrong(config: object, name: str, expected: str) -> StabilityConfigError:
    """The error that names a field, its value and what was expected."""
    return StabilityConfigError(f"{type(config).__name__}: {name} is {getattr(config, name)!r}; expected {expected}")
