"""What every artifact has: a kind, a name, a step and a time."""

from __future__ import annotations

import operator
import time
from dataclasses import dataclass, field
from sys import getsizeof
from typing import ClassVar

import numpy as np

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.plain import storable

MAX_NAME_LENGTH = 1000
"""The most characters of an artifact's name."""
MAX_STEP = 2**63 - 1
"""The largest step: what fits into 64 bits with a sign."""


def check_name(kind: str, name: object) -> str:
    """Returns ``name``; raises ArtifactError unless it is a text of 1 to 1000 characters that UTF-8 can hold."""
    if not isinstance(name, str):
        raise ArtifactError(f"{kind}: the name is {type(name).__name__} {name!r}; expected a str")
    if not 1 <= len(name) <= MAX_NAME_LENGTH:
        raise ArtifactError(
            f"{kind}: the name {name[:40]!r} has {len(name)} characters; expected 1 to {MAX_NAME_LENGTH}"
        )
    if "\0" in name:
        raise ArtifactError(f"{kind}: the name {name!r} holds a NUL character")
    try:
        if not name.isascii():
            name.encode()
    except UnicodeEncodeError as error:
        raise ArtifactError(f"{kind}: the name {name!r} holds a lone surrogate, which UTF-8 cannot store") from error
    return str.__str__(name)  # of a subclass, such as numpy.str_, only the text


def check_step(kind: str, name: str, step: object) -> int:
    """Returns ``step`` as an int; raises ArtifactError unless it is an integer from 0 to 2**63 - 1."""
    return _check_integer(kind, name, "step", step)


def check_time(kind: str, name: str, time_ns: object) -> int:
    """Returns ``time_ns`` as an int; raises ArtifactError unless it is an integer from 0 to 2**63 - 1."""
    return _check_integer(kind, name, "time_ns", time_ns)


def _check_integer(kind: str, name: str, field_name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= MAX_STEP:
        return value
    expected = "expected an integer from 0 to 2**63 - 1"
    if isinstance(value, bool):
        raise ArtifactError(f"{kind} {name!r}: {field_name} is the bool {value}; {expected}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ArtifactError(f"{kind} {name!r}: {field_name} is {type(value).__name__} {value!r}; {expected}") from error
    if not 0 <= number <= MAX_STEP:
        raise ArtifactError(f"{kind} {name!r}: {field_name} is {number}; {expected}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What all artifacts share.

    ``kind`` is the word that names the type in the store and to sinks. ``by_step`` says that a later attempt at a step
    replaces what an earlier one recorded there; of the other kinds readers return everything.
    """

    kind: ClassVar[str]
    by_step: ClassVar[bool] = True
    name: str
    step: int
    time_ns: int = field(default_factory=time.time_ns)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_name(self.kind, self.name))
        object.__setattr__(self, "step", check_step(self.kind, self.name, self.step))
        object.__setattr__(self, "time_ns", check_time(self.kind, self.name, self.time_ns))

    @property
    def nbytes(self) -> int:
        """About what it takes in memory, without the files that it names."""
        return _held_bytes(self)

    def plainer(self) -> Artifact:
        """Returns it as a kind that every sink takes, for those that have no rule for its own."""
        return self

    def _check_texts(self, *fields: str) -> None:
        """Keeps these fields as UTF-8 can hold them; raises ArtifactError unless they are str."""
        for key in fields:
            if not isinstance(value := getattr(self, key), str):
                raise ArtifactError(
                    f"{self.kind} {self.name!r}: {key} is {type(value).__name__} {value!r}; expected a str"
                )
            object.__setattr__(self, key, storable(value))


def _held_bytes(value: object) -> int:
    if type(value) is str or type(value) is int:  # most of what artifacts hold
        return getsizeof(value)
    if isinstance(value, tuple):
        return getsizeof(value) + sum(map(_held_bytes, value))
    if isinstance(value, np.ndarray):
        return value.nbytes
    if (names := getattr(value, "__dataclass_fields__", None)) is not None:
        return 64 + sum([_held_bytes(getattr(value, name)) for name in names])
    return getsizeof(value)
