"""The benchmark of naming the first NaN, on a small model, as the command runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "benchmarks" / "first_nan.py"


@pytest.mark.slow
def test_the_watch_stands_beside_detect_anomaly_and_the_replay_is_counted_in_steps(tmp_path):
    command = [sys.executable, "-W", "ignore", str(COMMAND), "--tiny", "--turns", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, done.stderr
    sides = re.findall(r"^(.+?) +[+-][0-9.]+ ms a step, +[+-][0-9.]+%", done.stdout, re.MULTILINE)
    assert sides == ["watch", "watch and capture", "detect_anomaly"]
    found = re.findall(r"^replay, NaN in (\S+) +[0-9.]+ steps .*; (\w+) ", done.stdout, re.MULTILINE)
    assert found == [("embedding.weight", "embedding"), ("head.weight", "head")]
