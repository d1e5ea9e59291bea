"""On a machine that has not got the measuring code compiled, a training starts at once and no step is missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope

TRAINING = """
import contextlib, subprocess, sys, time, torch, stepscope
from debuggers.measurement.kernel_compilation import compilation
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters())
steps = after = 0
with stepscope.open_run(sys.argv[1], sinks=[]) as run:
    session = stepscope.watch(model, optimizer, run=run, max_overhead=None) if sys.argv[2] == "watch" else None
    end = time.monotonic() + 250
    while after < 20 and time.monotonic() < end and (session is not None or steps < int(sys.argv[3])):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        run.scalar("loss", loss, step=steps)
        steps += 1
        after += session is not None and not compilation.is_pending
        if session is not None and compilation.is_pending:
            with contextlib.suppress(subprocess.TimeoutExpired):  # steps of a usual length, until the code is there
                compilation._child.wait(0.02)
    print(steps, after, session.report().overhead.measured if session else 0, compilation.is_ready())
"""


def train(folder: Path, cache: Path, *arguments: str) -> tuple[list[str], str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "STEPSCOPE_COMPILE": "background"}
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.slow
def test_a_training_on_a_new_machine_starts_at_once_and_loses_no_step(tmp_path: Path) -> None:
    (steps, after, measured, ready), told = train(tmp_path / "cold", tmp_path / "cache", "watch")
    assert (after, ready) == ("20", "True"), told
    assert int(steps) > 30
    assert steps == measured
    assert next(line for line in told.splitlines() if "measuring code" in line).startswith("stepscope: compiles its")
    assert told.count("stepscope: compiled its measuring code in ") == 1

    norms = stepscope.read_run(tmp_path / "cold").scalars("gradient_norm/0.weight")
    assert norms.steps.tolist() == list(range(int(steps)))
    train(tmp_path / "plain", tmp_path / "cache", "plain", steps)
    losses = [stepscope.read_run(tmp_path / name).scalars("loss").values.tolist() for name in ("cold", "plain")]
    assert losses[0] == losses[1]

    (_, _, _, ready), told = train(tmp_path / "warm", tmp_path / "cache", "watch")
    assert ready == "True"
    assert "measuring code" not in told
