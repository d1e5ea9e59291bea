"""A debugger of another package: really installed, named by a configuration, tested as its author would test it."""

import pytest
from wheels import ROOT, install_example, run_tests

EXAMPLE = ROOT / "examples" / "third_party_debugger"
PAGE = (ROOT / "docs" / "extending" / "write_a_debugger.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_author_tests_what_is_installed_by_its_name(tmp_path):
    site, tests = tmp_path / "site", tmp_path / "tested"
    install_example(site, EXAMPLE)
    tests.mkdir()
    assert "1 passed" in run_tests(tests, site, EXAMPLE / "test_top_channels.py")


@pytest.mark.parametrize("name", ["top_channels.py", "pyproject.toml", "test_top_channels.py"])
def test_the_page_shows_the_files_as_they_are(name):
    assert (EXAMPLE / name).read_text(encoding="utf-8") in PAGE
