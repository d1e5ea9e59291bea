"""Turns what callers pass beside arrays into Python's own types, which JSON and msgpack hold."""

import math
import sys
from collections.abc import Iterable, Mapping, Set
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tracker_adapters.errors import ArtifactError

MAX_DEPTH = 50


def storable(text: str) -> str:
    """Returns a text as UTF-8 can hold it: of lone surrogates the escapes.

    A model under debug may decode to anything, and a file's name may be any bytes; what can be read of it must
    still be recorded.
    """
    if type(text) is str and text.isascii():
        return text
    try:
        return str.encode(text).decode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()


def comes_from(value: object, package: str) -> bool:
    """Whether a value's class, or one that it is derived from, is of a package, which need not be imported for this."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(value).__mro__)


def as_tuple(value: object) -> tuple[Any, ...] | None:
    """Returns a sequence's items; None for what has no order or is a text."""
    if isinstance(value, (str, bytes, Mapping, Set)) or not isinstance(value, Iterable):
        return None
    return tuple(value) if getattr(value, "ndim", 1) else None


def plain(value: object) -> object:
    """Returns a number, a text or a 0-d array or tensor as Python's own type; anything else as it is."""
    if value is None or isinstance(value, bool):
        return value
    # NumPy's scalars and enumerations are subclasses, which msgpack refuses.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return storable(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        try:
            item = value.item()
        except (RuntimeError, ValueError):  # a meta tensor, an array that is no number
            return value
        if isinstance(item, np.longdouble):  # an item of its own
            return float(item)
        return item if type(item) is type(value) else plain(item)
    return value


def resolved(value: Any, *, allows_missing: bool = False) -> Any:
    """Returns an OmegaConf container as dicts and lists, with its interpolations resolved; all else as it is.

    Args:
        value: Anything.
        allows_missing: Whether a value that was left open stays ``"???"``; if not, it is an error of OmegaConf.
    """
    package = type(value).__module__.partition(".")[0]
    if package != "omegaconf":
        return value
    omegaconf = sys.modules[package].OmegaConf
    return omegaconf.to_container(value, resolve=True, throw_on_missing=not allows_missing)


def plain_config(value: Any, depth: int = 0) -> Any:
    """Copies a configuration down to JSON's types; what JSON cannot hold becomes its ``str``."""
    try:
        value = resolved(value, allows_missing=True)
    except Exception as error:  # OmegaConf's own, or of a resolver that the user has registered
        raise ArtifactError(
            f"config cannot be resolved ({error}); expected interpolations that lead to a value"
        ) from error
    if depth > MAX_DEPTH:
        raise ArtifactError(f"config is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if depth == 0 and not isinstance(value, Mapping):
        raise ArtifactError(f"config is {type(value).__name__} {value!r}; expected a dict")
    if isinstance(value, Mapping):
        return {storable(str(key)): plain_config(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_config(item, depth + 1) for item in value]
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return storable(value.__name__ if isinstance(value, type) else str(value))


def as_path(what: str, path: object) -> Path:
    """Returns a str or path-like object as a Path; raises ArtifactError for anything else."""
    if not isinstance(path, (str, PathLike)):
        raise ArtifactError(f"{what}: path is {type(path).__name__} {path!r}; expected a path")
    return Path(path)


def json_values(value: Any) -> Any:
    """Copies nested mappings, lists and tuples for JSON: NaN and infinities, which it does not have, become None."""
    if isinstance(value, Mapping):
        return {key: json_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
