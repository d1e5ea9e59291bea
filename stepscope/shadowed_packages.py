"""Notices that a user's own module hides one of the packages that stepscope consists of."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

PARTS = ("debuggers", "stability")


def check_parts(home: Path) -> None:
    """Checks that ``import debuggers`` and ``import stability`` find what was installed with stepscope.

    Args:
        home: The folder that holds the package stepscope.

    Raises:
        ImportError: When another file comes first, such as a ``stability.py`` beside the script; names it.
    """
    for name in PARTS:
        ours = home / name
        found = _found_at(name)
        if found is None or not ours.is_dir() or _same(found.parent, ours):
            continue
        what = found.parent if found.name == "__init__.py" else found
        raise ImportError(
            f"{what} hides the package {name!r} that stepscope was installed with in {ours}: Python finds your file "
            f"first. Rename it, for example to my_{what.name}, or start the script from where it is not on sys.path"
        )


def _found_at(name: str) -> Path | None:
    module = sys.modules.get(name)
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if module is None:
        spec = find_spec(name)
    origin = getattr(module, "__file__", None) or (spec and spec.origin)
    return Path(origin) if origin else None


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False
