"""The benchmarks of pages and debuggers, on tiny ones, as their commands run them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(folder, name):
    command = [sys.executable, str(BENCHMARKS / name), "--tiny", "--threads", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow  # eleven processes, each of which imports torch
def test_pages_are_compared_with_joblib(tmp_path):
    *written, read, saved = run(tmp_path, "pages.py").values()
    assert len(written) == 2
    for found in written:
        assert found["joblib.dump / a page"] == pytest.approx(found["joblib.dump, ms"] / found["a page, ms"])
        assert 0 < found["  the caller is held up, ms"] < found["a page, ms"]
    assert 0 < read["one datapoint, new MB at most"] < read["all pages by joblib.load, new MB"]
    assert saved["pages: growth of the peak, in pages"] > 0


@pytest.mark.slow
def test_debuggers_are_compared_with_plain_steps_and_bare_copies(tmp_path):
    off, maps = run(tmp_path, "debuggers_step.py").values()
    assert 0 < off["share of the step, %"] < 100
    assert maps["feature maps of a step, MB"] == pytest.approx(
        2 * 4 * sum((4 << k) * (8 >> k) ** 2 * 4 for k in range(4)) / 2**20
    )
    assert maps["captures / clones, alone"] > 0
