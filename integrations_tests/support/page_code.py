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


def lines_shown(example: str) -> set[str]:
    """Returns the lines of output that the page of the examples shows of one, without their numbers."""
    gallery = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    shown = re.search(rf"^python examples/{example}\n```\n\n```text\n(.*?)^```", gallery, re.MULTILINE | re.DOTALL)
    assert shown is not None, example
    return {without_numbers(line) for line in shown[1].splitlines()}


def without_numbers(line: str) -> str:
    """Returns a line of output with ``#`` for each number."""
    return re.sub(r"\d[\d.e+-]*", "#", line).strip()
