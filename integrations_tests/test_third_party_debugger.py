"""A debugger of another package: really installed, named by a configuration, tested as its author would test it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "third_party_debugger"
PAGE = (ROOT / "docs" / "extending" / "write_a_debugger.md").read_text(encoding="utf-8")


def run_python(arguments, folder, site):
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_its_author_tests_what_is_installed_by_its_name(tmp_path):
    site = tmp_path / "site"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", str(site)]
    example = shutil.copytree(EXAMPLE, tmp_path / "example")
    done = run_python(["-m", "pip", "install", *options, str(example)], tmp_path, site)
    assert done.returncode == 0, done.stderr
    (tmp_path / "tested").mkdir()
    shutil.copy(EXAMPLE / "test_top_channels.py", tmp_path / "tested")
    done = run_python(["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tested"], tmp_path, site)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("name", ["top_channels.py", "pyproject.toml", "test_top_channels.py"])
def test_the_page_shows_the_files_as_they_are(name):
    assert (EXAMPLE / name).read_text(encoding="utf-8") in PAGE
