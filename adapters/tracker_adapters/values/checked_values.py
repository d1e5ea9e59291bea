"""Checks values against annotations by msgspec; the error names the value and says what was expected.

What is expected is the ``description`` of the annotation's ``msgspec.Meta``, and else follows from the type.
"""

from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, ValidationError, convert

from tracker_adapters.errors import StepscopeError

PositiveNumber: TypeAlias = Annotated[float, Meta(gt=0, description="a number above 0")]
"""Infinity is allowed."""
PositiveInteger: TypeAlias = Annotated[int, Meta(ge=1, description="an integer of at least 1")]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1, description="a share above 0 and at most 1, such as 0.1")]
_EXPECTED: dict[Any, str] = {bool: "True or False", int: "an integer", float: "a number", str: "a str"}


def at_least(least: int) -> Any:
    """Returns the annotation of an integer from ``least`` on."""
    return Annotated[int, Meta(ge=least, description=f"an integer of at least {least}")]


def expected(kind: Any) -> str:
    """Returns what an annotation expects, in words; empty for one that says nothing."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [expected(one) for one in get_args(kind) if one is not NoneType]
        none = ", or None" if NoneType in get_args(kind) else ""
        return " or ".join(kinds) + none if all(kinds) else ""
    described = [meta.description for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, Meta)]
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return next(filter(None, described), _EXPECTED.get(kind, ""))


def is_valid(value: Any, kind: Any) -> bool:
    """Whether a value is what an annotation says, one that msgspec supports.

    An int is a number, a bool is none. Subclasses of int, float and str, such as NumPy's float64, count as these.
    """
    for base in (int, float, str):
        if isinstance(value, base) and not isinstance(value, bool):
            value = base(value)
    try:
        convert(value, kind)
    except ValidationError:
        return False
    return True


def check_value(what: str, value: object, kind: Any, error: type[StepscopeError]) -> None:
    """Raises ``error`` unless a value is what an annotation says; ``what`` names it in the message."""
    if not is_valid(value, kind):
        raise error(f"{what} is {value!r}; expected {expected(kind)}")


def unknown_field(cls: Any, names: Iterable[str]) -> str | None:
    """Returns what is to be said of the first name that is no field of a dataclass; None when all are fields.

    The sentence has the nearest and all known names.
    """
    known = [field.name for field in fields(cls)]
    for name in names:
        if name not in known:
            near = " or ".join(map(repr, get_close_matches(name, known, n=2)))
            hint = f"; did you mean {near}?" if near else ";"
            return f"{cls.__name__} has no field {name!r}{hint} its fields are {', '.join(known)}"
    return None


def check_fields(config: object, error: type[StepscopeError], before: str = "") -> None:
    """Raises ``error`` for the first field of a dataclass that is not what its annotation expects.

    Fields whose annotation says nothing, see ``expected``, are left alone. ``before`` begins the message.
    """
    cls: Any = type(config)  # the hash of a type confuses mypy
    for name, kind in _checked_fields(cls):
        check_value(f"{before}{name}", getattr(config, name), kind, error)


@cache
def _checked_fields(cls: type) -> tuple[tuple[str, Any], ...]:
    # Reading annotations takes longer than checking values against them.
    return tuple((name, kind) for name, kind in get_type_hints(cls, include_extras=True).items() if expected(kind))
