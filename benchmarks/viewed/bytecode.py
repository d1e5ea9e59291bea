"""Bytecode of our packages: the other viewers are installed, and have theirs."""

import compileall
from importlib.util import find_spec

PACKAGES = ("stepscope", "tracker_adapters", "debuggers", "stability")


def compile_packages() -> None:
    """Compiles our sources as an installation does; a checkout would do it in the measured start of a viewer."""
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=1)
