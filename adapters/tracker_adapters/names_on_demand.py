"""Lazy imports: each public name of a package is imported when it is first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_on_demand(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns what a package takes as its ``__getattr__`` and ``__dir__``.

    Args:
        package: Its name; ``dir`` of it lists its ``__all__``, and nothing from inside.
        homes: The module of each name.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted([*sys.modules[package].__all__, "__doc__", "__file__", "__name__", "__path__"])

    return get, names
