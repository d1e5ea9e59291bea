"""A process of tests ends with pytest's exit status, although it ends without taking anything apart."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import os

def test_that_fails():
    raise ValueError

def test_that_is_interrupted():
    os.kill(os.getpid(), 2)
"""


def test_a_process_of_tests_ends_with_the_status_of_pytest(tmp_path):
    tests = tmp_path / "test_here.py"
    tests.write_text(TESTS)
    # Without the packages' plugins, which take seconds to import.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    options = ["-p", "conftest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-q"]
    command = [sys.executable, "-m", "pytest", *options, tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stderr
    assert "1 failed" in done.stdout
