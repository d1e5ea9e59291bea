"""What the README and the documentation show, and the examples, run as they stand."""

import re

import pytest
from page_code import FIRST_DAY, PAGES, ROOT, run_blocks, run_python

GALLERY = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
SERVERS = {"gradio_app.py"}  # has a test of its own, in the browser
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in SERVERS]


def test_the_code_of_the_readme_and_of_the_quickstart_runs_from_top_to_bottom(readme_folder):
    for name in ("sick", "exp1"):
        assert (readme_folder / "runs" / name / "run.json").is_file()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in FIRST_DAY and "```python" in page.read_text()],
    ids=lambda page: page.name,
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, warm_python):
    run_blocks(page, tmp_path, warm_python)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_its_page_shows(example, tmp_path, warm_python):
    printed = run_python(warm_python, [str(example), str(tmp_path / "run")], tmp_path)
    assert printed.strip()
    shown = re.search(rf"^python examples/{example.name}\n```\n\n```text\n(.*?)^```", GALLERY, re.MULTILINE | re.DOTALL)
    assert shown is not None
    lines = {without_numbers(line) for line in printed.splitlines()}
    assert [line for line in shown[1].splitlines() if without_numbers(line) not in lines] == []


def without_numbers(line):
    return re.sub(r"\d[\d.e+-]*", "#", line).strip()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
