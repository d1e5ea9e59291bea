"""Models, optimizers and parts that do not belong together are refused by name."""

import pytest
import torch
from torch import nn

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    StabilityConfigError,
    StabilityError,
)


def manager(**keywords):
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), **keywords)


def test_a_model_and_an_optimizer_of_another_type_are_refused():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(StabilityError, match=r"the model is of type SGD; expected a torch.nn.Module"):
        manager().step(optimizer, 0.5, model)
    with pytest.raises(StabilityError, match=r"the optimizer is of type NoneType; expected a torch.optim.Optimizer"):
        manager().step(model, 0.5, None)


@pytest.mark.parametrize("name", ["detector", "recovery", "find_first_nan"])
def test_a_part_of_another_type_is_refused(name):
    with pytest.raises(StabilityConfigError, match=f"{name} is True; expected a "):
        manager(**{name: True})


def test_the_scaler_cannot_be_replaced():
    """Snapshots, the repeated step and a session have taken the one of the constructor."""
    stability = manager()
    with pytest.raises(StabilityError, match=r"scaler cannot be set; expected NumericalStabilityManager\(..., scaler="):
        stability.scaler = torch.amp.GradScaler("cpu")
    assert stability.scaler is None


def test_a_state_of_something_else_is_refused_and_changes_nothing():
    stability = manager()
    state = stability.state_dict()
    with pytest.raises(
        StabilityError, match=r"the state has the keys \['seen'\]; expected what state_dict\(\) returned"
    ):
        stability.load_state_dict({"seen": 3})
    assert stability.state_dict() == state
