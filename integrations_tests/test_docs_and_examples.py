"""What the README and the documentation show, and the examples, run as they stand."""

import re

import pytest
from page_code import FIRST_DAY, PAGES, ROOT, lines_shown, run_blocks, run_python, without_numbers

ELSEWHERE = {"gradio_app.py", "ray_train.py", "ray_data.py"}  # have tests of their own: with a browser, with Ray
FRAMEWORK = re.compile(r"^ *(?:import|from) (?:lightning|transformers|keras|mmengine|ignite|accelerate|hydra)\b", re.M)
LONG = {
    "watching.md", "stability.md", "debuggers.md", "data.md", "migration.md", "trustformers.md", "delivery.md",
    "pictures.md", "three_sinks.py", "stability_basic.py", "stability_production.py", "stability_wrapper.py",
    "many_runs.py", "ddp_two_ranks.py", "watch_training.py",
}  # fmt: skip
"""What takes seconds."""


def marked(paths):
    """What takes seconds, or imports a framework, which does, is slow."""
    is_slow = {path: path.name in LONG or FRAMEWORK.search(path.read_text(encoding="utf-8")) for path in paths}
    return [pytest.param(path, id=path.name, marks=pytest.mark.slow if is_slow[path] else ()) for path in paths]


RUN = [page for page in PAGES if page not in FIRST_DAY and "```python" in page.read_text(encoding="utf-8")]
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in ELSEWHERE]


def test_what_is_left_to_the_slow_tests_is_there():
    assert {path.name for path in RUN + EXAMPLES} >= LONG


def test_the_code_of_the_readme_and_of_the_quickstart_runs_from_top_to_bottom(readme_folder):
    for name in ("sick", "exp1"):
        assert (readme_folder / "runs" / name / "run.json").is_file()


@pytest.mark.parametrize("page", marked(RUN))
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, warm_python):
    run_blocks(page, tmp_path, warm_python)


@pytest.mark.parametrize("example", marked(EXAMPLES))
def test_an_example_prints_what_its_page_shows(example, tmp_path, warm_python):
    printed = run_python(warm_python, [str(example), str(tmp_path / "run")], tmp_path)
    assert printed.strip()
    assert lines_shown(example.name) - {without_numbers(line) for line in printed.splitlines()} == set()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
