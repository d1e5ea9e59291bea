"""A training that has learnt nothing, and has no cause, is not called healthy."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from made_evidence import evidence, of_loss

import stepscope
from debuggers.diagnosis.progress import nothing_learnt
from stepscope.cli import main

STEPS = 100


@pytest.mark.parametrize(
    ("steps", "last", "of", "is_one"),
    [
        (100, 2.27, {}, True),
        (100, 2.24, {}, False),
        (99, 2.27, {}, False),
        (100, 2.27, {"kind": ""}, False),
        (100, 2.27, {"terms": 2}, False),
        (100, 2.27, {"penalized": True}, False),
    ],
)
def test_a_loss_that_stays_at_that_of_a_constant_output_has_learnt_nothing(steps, last, of, is_one):
    baseline = {} if of.get("kind") == "" else {"baseline_loss": np.full(steps, 2.3)}
    found = evidence(facts=of_loss(**of), loss=np.linspace(2.3, last, steps), **baseline)
    assert bool(nothing_learnt(found)) == is_one


@pytest.mark.parametrize("signal", [0.0, 3.0])
def test_labels_that_nobody_can_learn_leave_a_gap_in_the_verdict_and_in_the_store(signal, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Linear(1, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run, max_overhead=None) as session,
    ):
        for _ in range(150):
            rows = torch.randn(32, 8)
            labels = (signal * rows[:, :3] + torch.randn(32, 3)).argmax(1)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()
    report = session.report()
    told = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")]).output
    if not report.causes:
        assert any("nothing was learnt: after 150 steps the loss is" in gap for gap in report.verdict.gaps) == (
            not signal
        )
        assert told.count("nothing was learnt") == (not signal)
