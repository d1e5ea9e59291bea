"""Runs the Python code that a page shows, as it stands."""

import os
import re
import textwrap
from pathlib import Path

from warm_python import WarmPython

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
"""What shows code and commands."""
FIRST_DAY = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
"""What a newcomer follows in one folder."""


def run_blocks(page: Path, folder: Path, python: WarmPython) -> None:
    """Runs the Python blocks of a Markdown page in their order, each as a script of its own in the folder."""
    text = page.read_text(encoding="utf-8")
    for number, block in enumerate(re.findall(r"^ *```python\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)):
        (folder / f"block_{number}.py").write_text(textwrap.dedent(block), encoding="utf-8")
        run_python(python, [f"block_{number}.py"], folder)


def run_python(python: WarmPython, arguments: list[str], folder: Path) -> str:
    """Runs a script in a folder; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "WANDB_"))}
    done = python.run(arguments, folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
