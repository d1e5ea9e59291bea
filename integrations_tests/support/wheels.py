"""Builds and installs packages with pip."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def pip(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs pip, with more variables in its environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    environment = os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def copy_of_sources(folder: Path) -> Path:
    """Copies the sources: what an earlier build left in the checkout would find its way into the wheel."""
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.so", "node_modules")
    return shutil.copytree(ROOT, folder / "source", ignore=left_out)


def build_wheel(folder: Path) -> None:
    """Builds the wheel as a user would, with the build requirements that ``pyproject.toml`` names and no others."""
    done = pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy_of_sources(folder)))
    assert done.returncode == 0, done.stderr
