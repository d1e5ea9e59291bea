"""How this package's modules are started as processes of their own."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import tracker_adapters


def python_command(module: str) -> list[str]:
    """Returns the command that runs a module; a file in the working directory cannot stand for a package."""
    return [sys.executable, "-P", "-m", module]


def python_environment() -> dict[str, str]:
    """Returns the environment for it: no accelerator, one thread, and this package wherever it was imported from."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    root = str(Path(tracker_adapters.__file__).parent.parent)
    if root not in sysconfig.get_paths().values():  # an import from a checkout
        environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return environment
