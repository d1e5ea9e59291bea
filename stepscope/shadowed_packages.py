"""Notices that a user's own module hides one of the packages that stepscope consists of."""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

PARTS = ("debuggers", "stability")


def check_parts(home: Path) -> None:
    """Checks that ``import debuggers`` and ``import stability`` find what was installed with stepscope.

    A plain folder of that name, such as one that holds results, is passed over. Python does so by itself where the
    packages lie on ``sys.path``, but not after an editable installation.

    Args:
        home: The folder that holds the package stepscope.

    Raises:
        ImportError: When another file comes first, such as a ``stability.py`` beside the script; names it.
    """
    for name in PARTS:
        ours = home / name
        if not ours.is_dir():
            continue
        found = _found_at(name)
        if found is None and name not in sys.modules:
            _import_from(ours)
        elif found is None or not _same(found.parent, ours):
            raise ImportError(_explanation(name, ours, found))


def _found_at(name: str) -> Path | None:
    """Returns the file that an import runs or has run, or None for a plain folder."""
    if (module := sys.modules.get(name)) is not None:
        origin = getattr(module, "__file__", None)
    else:
        spec = find_spec(name)
        origin = spec and spec.origin
    return Path(origin) if origin else None


def _import_from(folder: Path) -> None:
    spec = spec_from_file_location(folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        return
    sys.modules[folder.name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[folder.name]
        raise


def _explanation(name: str, ours: Path, found: Path | None) -> str:
    if found is None:
        hidden_by = next(iter(getattr(sys.modules[name], "__path__", [])), name)
        return (
            f"the folder {hidden_by} was imported as {name!r}, and hides the package of that name that stepscope was "
            f"installed with in {ours}. Import stepscope first, or rename the folder"
        )
    what = found.parent if found.name == "__init__.py" else found
    return (
        f"{what} hides the package {name!r} that stepscope was installed with in {ours}: Python finds your file "
        f"first. Rename it, for example to my_{what.name}, or start the script from where it is not on sys.path"
    )


def _same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False
