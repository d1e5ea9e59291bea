"""The architecture page names modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_, *SECTIONS = re.split(r"^`([\w/]+)/`.*:$", PAGE.partition("\n## Where to find what\n")[2], flags=re.MULTILINE)
NAMED = [
    (folder, pattern)
    for folder, section in zip(SECTIONS[::2], SECTIONS[1::2], strict=True)
    for pattern in re.findall(r"`([\w*/]+\.py)`", section.partition("\n## ")[0])
]


def test_it_has_a_list_of_modules_for_each_folder() -> None:
    assert {"debuggers", "stability", "stepscope", "adapters/tracker_adapters"} == {folder for folder, _ in NAMED}


@pytest.mark.parametrize(("folder", "pattern"), NAMED)
def test_what_it_names_exists(folder: str, pattern: str) -> None:
    assert list((ROOT / folder).glob(pattern))
