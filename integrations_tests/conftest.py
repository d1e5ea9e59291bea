"""The demo's run, made once for all tests that look at it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults import FaultReport
from page_code import run_blocks
from warm_python import WarmPython

# Which code measures must not depend on when a process beside the tests has compiled it.
os.environ.setdefault("STEPSCOPE_COMPILE", "wait")

# Beside other workers a test that takes every core waits for them, and they for it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# So that a failing check of the contract shows the values that it compared.
pytest.register_assert_rewrite("tracker_adapters.testing")


@dataclass(frozen=True)
class Demo:
    """A finished run of ``stepscope demo``: its folder, and what the command printed."""

    folder: Path
    printed: str


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("runs") / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "demo", "--output", str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Demo(folder, done.stdout)


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """For programs that import torch, where that import is not what is tested."""
    with WarmPython() as python:
        yield python


@pytest.fixture(scope="session")
def fault_report() -> FaultReport:
    """Where tests of faults write their line of the fault matrix."""
    return FaultReport()


@pytest.fixture(scope="session")
def readme_folder(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Path:
    """A working folder in which the Python code of the README was run from top to bottom."""
    folder = tmp_path_factory.mktemp("readme")
    run_blocks(Path(__file__).parent.parent / "README.md", folder, warm_python)
    return folder
