"""What the README and the documentation show, and the examples, run as they stand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from warm_python import WarmPython

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SERVERS = {"gradio_app.py"}  # has a test of its own, in the browser
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in SERVERS]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def run_python(python: WarmPython, arguments: list[str], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "WANDB_"))}
    done = python.run(arguments, folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, warm_python: WarmPython) -> None:
    for number, block in enumerate(python_blocks(page)):
        (tmp_path / f"block_{number}.py").write_text(block, encoding="utf-8")
        run_python(warm_python, [f"block_{number}.py"], tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path, warm_python: WarmPython) -> None:
    assert run_python(warm_python, [str(example), str(tmp_path / "run")], tmp_path).strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
