"""What is said of a framework that is not there, and of a version that no test ran with."""

import logging
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import stepscope
from stepscope.integrations import frameworks
from stepscope.integrations.frameworks import TESTED, check_version

PAGE = Path(__file__).parents[3] / "docs" / "frameworks.md"
FOLDER = Path(frameworks.__file__).parent
IMPORTED = {
    "accelerate": "accelerate",
    "ignite": "ignite.engine",
    "keras": "keras",
    "lightning": "lightning.pytorch",
    "mmengine": "mmengine.config",
    "torchtitan": "torchtitan.components.metrics",
    "transformers": "transformers",
}


@pytest.mark.parametrize("name", IMPORTED)
def test_a_framework_that_is_missing_is_told_with_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, IMPORTED[name], None)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    spec = spec_from_file_location("without_its_framework", FOLDER / f"{name}.py")

    with pytest.raises(stepscope.MissingPackageError) as caught:
        spec.loader.exec_module(module_from_spec(spec))

    assert str(caught.value).startswith(f"stepscope.integrations.{name} cannot import its framework (")
    assert str(caught.value).endswith(f": pip install 'stepscope[{name}]'")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_the_page_names_the_versions_that_were_tested():
    rows = re.findall(r"^\| \[.*?\| ([\d.]+)(?: to ([\d.]+))? \|.*\[(\w+)\]` \|$", PAGE.read_text(), re.MULTILINE)
    told = {extra: (oldest, newest or oldest) for oldest, newest, extra in rows}
    extras = {"pytorch-ignite": "ignite"}
    assert told == {extras.get(package, package): versions for package, versions in TESTED.items()}


@pytest.mark.parametrize(
    ("page", "words", "package"),
    [("frameworks/transformers.md", "models of TRL", "trl"), ("data.md", "tested with DuckDB", "duckdb")],
)
def test_other_pages_name_the_versions_that_the_tests_run_with(page, words, package):
    used = re.search(rf"^{package}==(\d+\.\d+)", (PAGE.parents[1] / "constraints.txt").read_text(), re.MULTILINE)
    told = re.findall(rf"{words} (\d+\.\d+)", (PAGE.parent / page).read_text())
    assert told == [used[1]]


@pytest.mark.parametrize(
    ("installed", "warns"), [("2.5.9", True), ("2.6.0", False), ("2.7.1rc1", False), ("2.8", True)]
)
def test_versions_are_compared_by_their_minor_ones(monkeypatch, caplog, installed, warns):
    monkeypatch.setattr(frameworks, "version", lambda name: installed)
    monkeypatch.setattr(frameworks, "_warned", set())
    monkeypatch.setitem(TESTED, "any", ("2.6", "2.7"))
    with caplog.at_level(logging.WARNING):
        check_version("any")
        check_version("any")

    assert caplog.text.count(f"tested with any 2.6 to 2.7, and {installed} is installed") == warns
