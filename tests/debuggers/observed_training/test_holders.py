"""Who holds an object, by its class and the name of the attribute."""

import pytest
import torch

from debuggers.observed_training.holders import holder_of

KINDS = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("make", [torch.optim.lr_scheduler.ReduceLROnPlateau, torch.optim.lr_scheduler.ExponentialLR])
def test_a_scheduler_is_found_also_after_its_attributes_were_listed(make, is_listed):
    optimizer, other = (torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(2))
    scheduler = make(optimizer, gamma=0.9) if make is torch.optim.lr_scheduler.ExponentialLR else make(optimizer)
    if is_listed:
        assert vars(scheduler)["optimizer"] is optimizer
    assert holder_of(optimizer, "optimizer", KINDS) is scheduler
    assert holder_of(other, "optimizer", KINDS) is None
    assert holder_of(optimizer, "base", KINDS) is None
    assert holder_of(optimizer, "optimizer", (torch.amp.GradScaler,)) is None
