"""Chan's step stands once in each language: who joins moments calls it."""

import re

import pytest
from source_imports import HOMES, ROOT

STEP = re.compile(r"\b(delta(?:\[[^\]\n]*\])?)(?: \* \1|\*\*2| \*\* 2)")
"""The square of what two means are apart, by the name that it had wherever the step stood."""
PLACES = {"adapters/tracker_adapters/histograms/moments.py", "adapters/tracker_adapters/native/kernels.h"}


def test_it_stands_in_one_place_of_python_and_in_one_of_c():
    sources = [path for home in HOMES.values() for end in ("py", "c", "h", "cu") for path in home.rglob(f"*.{end}")]
    found = {path.relative_to(ROOT).as_posix() for path in sources if STEP.search(path.read_text(encoding="utf-8"))}
    assert found == PLACES


@pytest.mark.parametrize(
    "line",
    [
        "m2 = ours.m2 + theirs.m2 + delta * delta * (n_ours * share)",
        "m2[row] += other_m2 + delta[row] * delta[row] * weight",
        "self.m2 += other.m2 + delta**2 * n * m / (n + m)",
    ],
)
def test_it_is_seen_in_every_form(line):
    assert STEP.search(line)
