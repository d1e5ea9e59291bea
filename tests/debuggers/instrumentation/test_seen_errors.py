"""An exception is known again, and neither it nor what failed is kept alive by that."""

import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from debuggers.activations.monitor import ActivationMonitor
from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.instrumentation.seen_errors import SeenErrors
from stability import FirstNaNFinder


class Frozen(Exception):
    def __setattr__(self, name, value):
        raise TypeError("frozen")

    def __reduce__(self):
        return type(self), self.args


@pytest.mark.parametrize("error", [ValueError("a"), KeyboardInterrupt(), Frozen("b")])
def test_an_exception_is_known_by_who_has_seen_it(error):
    mine, others = SeenErrors(), SeenErrors()
    assert error not in mine
    mine.add(error)

    assert error in mine
    assert error not in others
    assert type(error)(*error.args) not in mine
    assert pickle.loads(pickle.dumps(error)).args == error.args


class Fails(nn.Module):
    """Raises in the middle of a forward pass when ``fails`` is set; knows the values that its passes computed."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.active = nn.Linear(4, 8), nn.Linear(8, 2), nn.Tanh()
        self.fails, self.computed = False, []

    def forward(self, values):
        hidden = self.active(self.first(values))
        self.computed.append(weakref.ref(hidden))
        if self.fails:
            raise ValueError("out of range")
        return self.second(hidden)

    def pass_that_fails(self, handle=lambda error: None):
        self.fails = True
        try:
            self(torch.randn(3, 4))
        except ValueError as error:
            handle(error)
        self.fails = False

    @property
    def held(self):
        gc.collect()
        return [ref() for ref in self.computed if ref() is not None]


def test_a_finder_keeps_nothing_of_an_exception_that_it_has_looked_at():
    model = Fails()
    with FirstNaNFinder(model, to_terminal=False) as finder:
        model.pass_that_fails(finder.look_at_error)
        assert len(model.computed) == 2  # the pass, and its repetition
        assert model.held == []


def test_a_monitor_keeps_nothing_of_a_pass_that_raised():
    model = Fails()
    with ActivationMonitor(model, on_error="raise") as monitor:
        for step in range(3):
            with monitor.step(step):
                model(torch.randn(3, 4)).sum().backward()
        monitor.expect(3)
        model.pass_that_fails()
        assert model.held == []


@pytest.mark.parametrize("gradients", [True, False])
def test_a_capture_keeps_no_graph_of_a_pass_that_raised(gradients):
    model = Fails()
    with ForwardCapture(model, gradients=gradients):
        model.pass_that_fails()
        assert model.held == []
