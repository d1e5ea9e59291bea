"""Every side of the benchmark of a watched step, on a tiny model, as the command runs it."""

from __future__ import annotations

import importlib.util
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


def run(folder: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, str(COMMAND), "--tiny", "--steps", str(STEPS), "--json", "found.json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["found.json"]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return done.stdout, found["cases"]


@pytest.mark.parametrize("side", [*THEIRS, *OURS])
def test_a_side_watches_a_step(side: str, tmp_path: Path) -> None:
    printed, cases = run(tmp_path, "--model", "transformer", "--sides", side)
    row = cases["transformer"][side]
    if side == "smdebug" and importlib.util.find_spec("smdebug") is None:
        assert "not measured: ModuleNotFoundError: No module named 'smdebug'" in printed
        return
    assert "error" not in row
    assert [pair["ratio"] for pair in row["pairs"]] == [
        pytest.approx(pair["watched_ms"] / pair["plain_ms"]) for pair in row["pairs"]
    ]
    assert len(row["pairs"]) == STEPS
    assert row["same_weights"]


@pytest.mark.slow
def test_all_models_in_one_run(tmp_path: Path) -> None:
    printed, cases = run(tmp_path, "--model", "all", "--sides", "gradients")
    assert list(cases) == GROUPS["all"]
    assert all(f"\n{name}" in printed for name in cases)
    for rows in cases.values():
        assert "error" not in rows["gradients"]
        assert rows["gradients"]["stored_bytes_a_histogram"] > 0


def test_an_unknown_side_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(COMMAND), "--sides", "floor,flor"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "unknown sides flor; expected some of floor, clip," in done.stderr
