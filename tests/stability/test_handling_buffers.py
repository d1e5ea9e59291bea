"""A batch with NaN leaves nothing in the running statistics when something is done about it."""

import math

import pytest
import torch
from torch import nn

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stability.handling.buffers import BufferKeeper

BATCHES = [torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]


def train(handling_type, poisoned=(), left_out=()):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    model.register_buffer("mask", torch.ones(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    manager = NumericalStabilityManager(
        GradientClippingConfig(clipping_type="none"),
        NaNHandlingConfig(handling_type=handling_type, **({"snapshot_every": 1} if handling_type == "restore" else {})),
    )
    for number, batch in enumerate(BATCHES):
        if number in left_out:
            continue
        inputs = torch.where(torch.arange(6)[:, None] == 2, math.nan, batch) if number in poisoned else batch
        for _ in range(2):  # two micro-batches
            loss = model(inputs).square().mean() / 2
            loss.backward()
        manager.step(model, loss, optimizer)
        optimizer.step()
        optimizer.zero_grad()
    return model


def test_after_a_skip_the_model_is_what_it_is_without_the_batch():
    skipped, expected = train("skip", poisoned={3, 4}).state_dict(), train("skip", left_out={3, 4}).state_dict()
    assert all(torch.equal(skipped[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "handling_type", ["skip", "replace", "gradient_zeroing", "gradient_scaling", "restore", "adaptive"]
)
def test_no_handling_type_leaves_nan_behind(handling_type):
    model = train(handling_type, poisoned={2, 5})
    assert all(buffer.isfinite().all() for buffer in model.buffers())
    assert model.eval()(BATCHES[0]).isfinite().all()


def test_detection_leaves_everything_as_it_is():
    assert train("detect", poisoned={7})[1].running_mean.isnan().all()


def test_buffers_that_nobody_wrote_to_or_that_were_exchanged_are_left_alone():
    model = nn.BatchNorm1d(2)
    keeper = BufferKeeper()
    keeper.note_good_step(model)
    model.running_mean = torch.full((2,), math.nan)
    keeper.put_back(model)
    assert model.running_mean.isnan().all()
    keeper.note_good_step(model)
    model.running_mean.fill_(3.0)
    keeper.put_back(model)
    assert model.running_mean.isnan().all()
