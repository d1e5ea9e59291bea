"""The benchmark of a stability step, on few values, as the command runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "benchmarks" / "stability_step.py"


@pytest.mark.slow
def test_every_way_of_clipping_stands_beside_clip_grad_norm(tmp_path):
    command = [sys.executable, str(COMMAND), "--turns", "1", "--values", "40000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, done.stderr
    ratios = re.findall(r"^(clipped|below the bound) +(.+?) +[0-9.]+ ms +([0-9.]+) x$", done.stdout, re.MULTILINE)
    names = [name for _, name, _ in ratios]
    assert names[-6:] == ["clip_grad_norm_", "value", "global_norm", "layer_wise", "agc", "percentile"]
    (off,) = re.findall(r"exact [0-9.e-]+: ([0-9.]+) % off", done.stdout)
    assert float(off) < 7.0
