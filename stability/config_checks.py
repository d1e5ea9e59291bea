"""What the configurations share: unknown fields and values of another type or range are refused by name."""

from typing import Annotated, Self, TypeAlias

from msgspec import Meta
from tracker_adapters.values.checked_values import check_fields, unknown_field

from stability.errors import StabilityConfigError

UpToOne: TypeAlias = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1")]


class Checked:
    """Names the known fields when an unknown one is given, and checks each field against its annotation."""

    def __new__(cls, *_: object, **fields: object) -> Self:
        """Raises TypeError for an unknown field, with the known ones."""
        if unknown := unknown_field(cls, fields):
            raise TypeError(unknown)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check_fields(self, StabilityConfigError, f"{type(self).__name__}: ")


def check_config(name: str, value: object, kind: type) -> None:
    """Raises StabilityConfigError unless an argument is of the kind that its name says."""
    if not isinstance(value, kind):
        raise StabilityConfigError(f"{name} is {value!r}; expected a {kind.__name__}")


def wrong(config: object, name: str, expected: str) -> StabilityConfigError:
    """The error that names a field, its value and what was expected."""
    return StabilityConfigError(f"{type(config).__name__}: {name} is {getattr(config, name)!r}; expected {expected}")
