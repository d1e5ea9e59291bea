"""What the tests of the first NaN share."""

from contextlib import contextmanager

import pytest
import torch

from stability import FirstNaNFinder, GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager


@pytest.fixture
def finding():
    """Returns a context in which the first NaN of a model is looked for: a finder, and what takes a step by a loss."""

    @contextmanager
    def watch(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        with FirstNaNFinder(model, to_terminal=False) as finder:
            manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), find_first_nan=finder)

            def step(loss, *, after_backward=lambda: None, **keywords):
                optimizer.zero_grad()
                loss.backward()
                after_backward()
                return manager.step(model, loss, optimizer, **keywords)

            yield finder, step

    return watch
