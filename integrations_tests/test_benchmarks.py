"""Every side of the benchmark of a watched step, on a tiny model, as the command runs it."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watched.cases import GROUPS
from watched.our_sides import OURS
from watched.sides import THEIRS

COMMAND = Path(__file__).parent.parent / "benchmarks" / "watched_step.py"
STEPS = 2
FEW = ["floor", "gradients"]
OTHERS = [side for side in (*THEIRS, *OURS) if side not in FEW]
TIMEOUT_S = 900


def run(folder: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, str(COMMAND), "--tiny", "--steps", str(STEPS), "--threads", "1", "--json", "found.json"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["found.json"]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return done.stdout, found["cases"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What one command prints and measures of several sides; it runs each in a process of its own."""

    @functools.cache
    def measure(sides: str) -> tuple[str, dict[str, Any]]:
        return run(tmp_path_factory.mktemp("sides"), "--model", "transformer", "--sides", sides)

    return measure


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("side", [*FEW, *(pytest.param(side, marks=pytest.mark.slow) for side in OTHERS)])
def test_a_side_watches_a_step(side, measured):
    _, cases = measured(",".join(FEW if side in FEW else OTHERS))
    rows = cases["transformer"]
    row = rows[side]
    assert "error" not in row
    assert [pair["ratio"] for pair in row["pairs"]] == [
        pytest.approx(pair["watched_ms"] / pair["plain_ms"]) for pair in row["pairs"]
    ]
    assert len(row["pairs"]) == STEPS
    assert row["same_weights"]


@pytest.mark.slow
def test_all_models_in_one_run(tmp_path):
    printed, cases = run(tmp_path, "--model", "all", "--sides", "gradients")
    assert list(cases) == GROUPS["all"]
    assert all(f"\n{name}" in printed for name in cases)
    for rows in cases.values():
        assert "error" not in rows["gradients"]
        assert rows["gradients"]["stored_bytes_a_histogram"] > 0


def test_an_unknown_side_is_named(tmp_path):
    command = [sys.executable, str(COMMAND), "--sides", "floor,flor"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "unknown sides flor; expected some of floor, clip," in done.stderr


@pytest.mark.slow
def test_very_short_steps_are_all_looked_at(tmp_path):
    command = [sys.executable, str(COMMAND.parent / "small_step.py"), "--steps", "200"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["economy", "standard", "full"]
    assert [row[-2:] for row in rows] == [["100.0", "yes"]] * 3
