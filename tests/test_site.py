"""The site of the documentation leads to every page, and its reference has every public name."""

import importlib.util
import re
import shutil

import pytest
from source_imports import ROOT
from sphinx.ext.napoleon import GoogleDocstring

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "site" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_contents_names_every_page_once():
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL)
    named = sorted(page for tree in trees for page in re.findall(r"^\S.* <(\S+)>$", tree, re.MULTILINE))
    pages = [page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")]
    assert named == sorted({*pages, "api/index"} - {"index"})


def test_the_reference_documents_each_public_name(reference, tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / "architecture.md", tmp_path / "docs")
    reference.write_reference(tmp_path)
    for module, names in reference.public_names(ROOT).items():
        page = (tmp_path / "docs" / "api" / f"{module}.rst").read_text()
        documented = re.findall(r"^\.\. (?:auto|py:)(?:function|class|exception|data):: (\w+)$", page, re.MULTILINE)
        assert sorted(documented) == sorted(names)


def test_the_reference_follows_what_is_returned_and_leaves_unchanged_pages_alone(reference, tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / "architecture.md", tmp_path / "docs")
    reference.write_reference(tmp_path)
    page = tmp_path / "docs" / "api" / "stepscope.rst"
    assert ".. autoclass:: tracker_adapters.store.reading.record.ScalarSeries\n" in page.read_text()
    written = page.stat().st_mtime_ns
    reference.write_reference(tmp_path)
    assert page.stat().st_mtime_ns == written


def test_a_constant_without_a_docstring_is_named(reference):
    with pytest.raises(LookupError, match="the constant NO_SUCH_CONSTANT has no docstring"):
        reference.docstring_of("NO_SUCH_CONSTANT")


def test_a_colon_in_the_first_line_of_a_property_stays_prose(reference):
    lines = ["Hooks that act when a condition holds: ``session.hooks.register_hook(hook)``."]
    assert ":type: Hooks that act when a condition holds" in shown(lines)
    reference.keep_colons(None, "property", "hooks", None, None, lines)
    assert shown(lines) == ["Hooks that act when a condition holds:", "``session.hooks.register_hook(hook)``."]


def shown(lines):
    return [line for line in GoogleDocstring(lines, what="property", name="hooks").lines() if line]
