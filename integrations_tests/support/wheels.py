"""Builds and installs packages with pip."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
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


def run_python(
    arguments: Sequence[str], folder: Path, site: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder, with what is installed in a folder of packages before all else."""
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "250"} | variables,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def install(site: Path, source: Path) -> None:
    """Installs a package, without what it needs, into a folder of packages."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(site)]
    done = pip("install", *options, str(source))
    assert done.returncode == 0, done.stderr


def install_example(site: Path, example: Path) -> None:
    """Installs an example from a copy, since building one leaves files in it."""
    install(site, shutil.copytree(example, site.parent / "example"))


def install_hostile(site: Path, entry_points: str, error: str) -> None:
    """Installs the package evil 6.6 with its entry points; its module ``evil`` raises an error."""
    metadata = site / "evil-6.6.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 6.6\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    (site / "evil.py").write_text(f"raise {error}('imported')")


def run_doctor(folder: Path, site: Path) -> str:
    """Returns what the doctor prints where torch and trackers cannot be imported."""
    blocked = "import sys; sys.modules.update(torch=None, mlflow=None, wandb=None)"
    done = run_python(["-c", f"{blocked}; from stepscope.cli import main; main()", "doctor"], folder, site)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_tests(folder: Path, site: Path, tests: Path) -> str:
    """Returns what pytest prints of tests that pass, which are copied to a folder beside no others."""
    shutil.copy(tests, folder)
    done = run_python(["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)], folder, site)
    assert done.returncode == 0, done.stdout
    return done.stdout
