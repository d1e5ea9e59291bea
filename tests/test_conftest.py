"""Processes of tests end with pytest's exit status, although they end without taking anything apart."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise ValueError", pytest.ExitCode.TESTS_FAILED),
        ("import os; os.kill(os.getpid(), 2)", pytest.ExitCode.INTERRUPTED),
    ],
)
def test_a_process_of_tests_ends_with_the_status_of_pytest(tmp_path, body, expected):
    tests = tmp_path / "test_here.py"
    tests.write_text(f"def test_here():\n    {body}\n")
    # Without the packages' plugins, which take seconds to import.
    options = ["-p", "conftest", "-p", "no:xdist", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-q"]
    command = [sys.executable, "-m", "pytest", *options, tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
