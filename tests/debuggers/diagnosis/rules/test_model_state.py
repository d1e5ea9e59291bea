"""Modes that are kept on purpose."""

import pytest
import torch
from torch import nn

import stepscope


@pytest.mark.parametrize(
    ("fresh", "trains_at", "codes"), [(False, None, []), (False, 3, ["wrong_mode"]), (True, None, ["wrong_mode"])]
)
def test_batch_norms_that_were_trained_before_may_keep_their_statistics_from_the_first_step_on(fresh, trains_at, codes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    if not fresh:
        nn.init.normal_(model[1].weight, 1.0, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with stepscope.watch(model, optimizer) as session:
        for step in range(30):
            rows = torch.randn(32, 6)
            model.train(step == trains_at)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()

    report = session.report()
    assert [cause.code for cause in report.causes] == codes
    assert ("eval_mode_in_training" in {one.kind for one in report.findings}) is bool(codes)
