"""Remedies in real trainings: each ends finite where it would have ended in NaN."""

import math

import torch
from torch import nn

import stepscope
from stability import (
    FirstNaNFinder,
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    Recovery,
    RecoveryConfig,
    RecoverySampler,
)


def manager(handling="skip", **options):
    return NumericalStabilityManager(
        GradientClippingConfig(clipping_type="none"), NaNHandlingConfig(handling_type=handling), **options
    )


def changes(recovery):
    return [(event.change, event.remedy) for event in recovery.events]


def test_a_learning_rate_that_explodes_is_lowered_until_the_training_holds(tmp_path):
    torch.manual_seed(0)
    inputs = torch.randn(256, 8)
    targets = inputs.sum(1, keepdim=True)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=4.0)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        recovery = Recovery(RecoveryConfig(lower_learning_rate=True, learning_rate_factor=0.1, trial_steps=50), run)
        stability = manager("restore", recovery=recovery, emitter=run)
        for _ in range(400):
            loss = (model(inputs) - targets).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            stability.step(model, loss, optimizer)
            optimizer.step()
    assert loss < 1e-3
    assert changes(recovery) == [("applied", "lower_learning_rate"), ("kept", "lower_learning_rate")]
    alerts = [alert for alert in stepscope.read_run(tmp_path / "run").alerts() if alert.name == "recovery"]
    assert "the learning rate, 4, is multiplied by 0.1" in alerts[0].message


def test_a_broken_datapoint_is_named_and_left_out():
    torch.manual_seed(0)
    inputs = torch.rand(64, 4)
    inputs[37, 2] = -1.0  # its logarithm is NaN
    dataset = torch.utils.data.TensorDataset(torch.arange(64), inputs)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    recovery = Recovery(RecoveryConfig(exclude_datapoints=True, trial_steps=5))
    sampler = RecoverySampler(torch.utils.data.RandomSampler(dataset), recovery.excluded)
    with FirstNaNFinder(model, to_terminal=False, steps_between=1) as finder:
        stability = manager(recovery=recovery, find_first_nan=finder)
        seen = []
        for _ in range(4):
            for indices, batch in torch.utils.data.DataLoader(dataset, batch_size=8, sampler=sampler):

                def loss_of(batch=batch):
                    return (model(batch) - batch.log().sum(1, keepdim=True)).square().mean()

                seen.append(set(indices.tolist()))
                finder.datapoints = indices.tolist()
                loss = loss_of()
                optimizer.zero_grad()
                loss.backward()
                stability.step(model, loss, optimizer, replay=loss_of)
                optimizer.step()
    assert recovery.excluded.indices == {37}
    assert sum(37 in batch for batch in seen) == 1
    assert changes(recovery) == [("applied", "exclude_datapoints"), ("kept", "exclude_datapoints")]
    assert loss.isfinite()


class Shrink(nn.Module):
    def forward(self, values):
        return values * 1e-6


def test_a_module_that_leaves_float16_is_widened():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), Shrink(), nn.Linear(4, 1))
    with torch.no_grad():
        model[0].weight.fill_(3e3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    recovery = Recovery(RecoveryConfig(widen_operator=True, trial_steps=5))
    inputs = torch.full((2, 4), 10.0)
    with FirstNaNFinder(model, to_terminal=False, steps_between=1) as finder:
        stability = manager(recovery=recovery, find_first_nan=finder)
        losses = []
        for _ in range(10):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(inputs).float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            stability.step(model, loss, optimizer)
            optimizer.step()
            losses.append(loss.item())
    assert [math.isfinite(loss) for loss in losses] == [False] + [True] * 9
    assert changes(recovery) == [("applied", "widen_operator"), ("kept", "widen_operator")]
    recovery.close()
    with torch.autocast("cpu", dtype=torch.float16):
        assert model[0](inputs).dtype == torch.float16
