"""A training that has learnt nothing, and has no cause, is not called healthy."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from made_evidence import evidence, of_loss
from sklearn.datasets import load_digits

import stepscope
from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.progress import nothing_learnt
from stepscope.cli import main
from stepscope.report_pages.stored_contents import stored_contents

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
    assert bool(nothing_learnt(found, ())) == is_one
    assert nothing_learnt(found, [Cause(code="no_update", confidence=0.9)]) == ()


@pytest.mark.parametrize("times", [6, 1])
def test_a_layer_that_is_called_six_times_learns_nothing_which_the_verdict_and_the_store_tell(times, tmp_path):
    values, kinds = load_digits(return_X_y=True)
    values, kinds = torch.tensor(values, dtype=torch.float32) / 16, torch.tensor(kinds)
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 64)
    again = [one for _ in range(times) for one in (layer, torch.nn.Sigmoid())]
    model = torch.nn.Sequential(*again, torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run, max_overhead=None) as session,
    ):
        for _ in range(300):
            rows = torch.randint(len(values), (64,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(values[rows]), kinds[rows]).backward()
            optimizer.step()
    report, is_one = session.report(), times > 1
    assert report.causes == ()
    assert str(report.verdict.gaps).count("nothing was learnt: after 300 steps the loss is") == is_one
    told = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")]).output
    assert told.count("nothing was learnt") == is_one
    with stepscope.read_run(tmp_path / "run") as record:
        (content,) = stored_contents(record)
    assert str(content.left_out).count("nothing was learnt") == is_one
