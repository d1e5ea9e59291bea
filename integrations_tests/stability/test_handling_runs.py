"""A run of 2,000 steps with a fault every 50th, under each handling type."""

import math

import pytest
import torch
from torch import nn

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

pytestmark = pytest.mark.slow

STEPS, FAULT_EVERY = 2000, 50
OTHERS = ["adaptive", "replace", "gradient_zeroing", "gradient_scaling"]


def train(handling_type, *, fault_every=FAULT_EVERY):
    """Fits noisy targets, and returns the loss on data that it has not seen and the number of faulty steps."""
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    config = NaNHandlingConfig(handling_type=handling_type)
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=10.0), config)
    truth = torch.tensor([[1.0], [-2.0], [0.5], [0.0]])
    faults = 0
    for step in range(1, STEPS + 1):
        inputs = torch.randn(16, 4, generator=data)
        targets = inputs @ truth + 0.3 * torch.randn(16, 1, generator=data)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        if fault_every is not None and step % fault_every == 0:
            # In turn: an infinity in one gradient, NaN in all, and a loss that is not finite.
            kind = step // fault_every % 3
            if kind == 0:
                model[2].weight.grad[0, 3] = math.inf
            else:
                for parameter in model.parameters():
                    parameter.grad.fill_(math.nan)
            loss = loss * (math.nan if kind == 2 else 1.0)
        stats = manager.step(model, loss, optimizer)["nan_stats"]
        faults += not (stats["loss_finite"] and stats["gradients_finite"])
        optimizer.step()
        scheduler.step()
    unseen = torch.Generator().manual_seed(2)
    inputs = torch.randn(10_000, 4, generator=unseen)
    targets = inputs @ truth + 0.3 * torch.randn(10_000, 1, generator=unseen)
    with torch.no_grad():
        return nn.functional.mse_loss(model(inputs), targets).item(), faults


@pytest.fixture(scope="module")
def undisturbed():
    return train("detect", fault_every=None)[0]


@pytest.mark.parametrize(
    "handling_type", ["skip", "restore", *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS)]
)
def test_a_run_with_a_fault_every_50th_step_ends_as_well_as_one_without(handling_type, undisturbed):
    loss, faults = train(handling_type)

    print(f"{handling_type}: {loss:.6f} with {faults} faults, {undisturbed:.6f} without")
    assert faults == STEPS // FAULT_EVERY
    assert loss <= undisturbed * 1.01


def test_without_handling_the_same_run_is_lost():
    assert math.isnan(train("detect")[0])
