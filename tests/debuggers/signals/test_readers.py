"""Rectifiers that are no modules of torch's: what reads a layer's output, and what a module of one's own ends in."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.signals.readers import is_rectified

VALUES = torch.linspace(-2.0, 2.0, 9).requires_grad_()


@pytest.mark.parametrize(
    ("operation", "is_one"),
    [
        pytest.param(torch.relu, True, id="relu"),
        pytest.param(functional.relu6, True, id="relu6"),
        pytest.param(lambda x: x.clamp(min=0), True, id="clamp from 0"),
        pytest.param(lambda x: x.clamp(0, 3), True, id="clamp from 0 to 3"),
        pytest.param(lambda x: functional.threshold(x, 0.7, 0.0), True, id="threshold"),
        pytest.param(lambda x: x.clamp(-1, 1), False, id="clamp from -1"),
        pytest.param(functional.hardtanh, False, id="hardtanh"),
        pytest.param(torch.tanh, False, id="tanh"),
    ],
)
def test_what_puts_out_zero_below_a_number_is_rectified(operation, is_one):
    assert is_rectified(operation(VALUES).grad_fn) == is_one


class Above(nn.Module):
    """What is above a limit."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, values):
        return torch.relu(values - self.limit)


class Functional(nn.Module):
    def __init__(self, operation):
        super().__init__()
        self.first, self.last, self.operation = nn.Linear(4, 8), nn.Linear(8, 2), operation

    def forward(self, values):
        return self.last(self.operation(self.first(values)))


@pytest.mark.parametrize(
    ("model", "layer", "is_dead"),
    [
        pytest.param(lambda: nn.Sequential(nn.Linear(4, 8), Above(90.0), nn.Linear(8, 2)), "1", True, id="own module"),
        pytest.param(lambda: nn.Sequential(nn.Linear(4, 8), Above(-90.0), nn.Linear(8, 2)), "1", False, id="passes"),
        pytest.param(
            lambda: nn.Sequential(nn.Linear(4, 8), nn.Threshold(90.0, 0.0), nn.Linear(8, 2)), "1", True, id="Threshold"
        ),
        pytest.param(lambda: Functional(functional.relu6), "first", False, id="functional"),
    ],
)  # fmt: skip
def test_dead_units_are_counted_of_any_rectifier(model, layer, is_dead):
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with stepscope.watch(net, optimizer) as session:
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
    share = session.evidence().of_tensors("dead_units")[layer].values
    assert (share == 1.0).all() if is_dead else (share < 0.5).all()


@pytest.mark.parametrize(
    ("operation", "signal", "expected"),
    [
        pytest.param(lambda x: torch.tanh(1e4 * x), "saturated", 1.0, id="steep tanh"),
        pytest.param(lambda x: torch.sigmoid(x.view(16, 8) / 1e-4), "saturated", 1.0, id="steep sigmoid"),
        pytest.param(lambda x: 30 * torch.tanh(x / 30), "saturated", 0.0, id="soft limit"),
        pytest.param(lambda x: torch.sin(-30 * x), "phase_std", 30.0, id="sine"),
        pytest.param(torch.sin, "phase_std", 1.0, id="plain sine"),
    ],
)
def test_what_a_bounded_function_reads_is_told_behind_a_constant_factor(operation, signal, expected):
    torch.manual_seed(0)
    net = Functional(operation)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with stepscope.watch(net, optimizer) as session:
        net(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
    evidence = session.evidence()
    unit = evidence.of_tensors("output_std")["first"].first if signal == "phase_std" else 1.0
    assert evidence.of_tensors(signal)["first"].first == pytest.approx(expected * unit, abs=0.05 * unit)


@pytest.mark.parametrize("operation", [lambda x: torch.relu(-x), lambda x: torch.tanh(x[:, :4]).repeat(1, 2)])
def test_of_a_part_or_what_is_turned_around_nothing_is_said(operation):
    net = Functional(operation)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with stepscope.watch(net, optimizer) as session:
        net(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
    evidence = session.evidence()
    assert "first" not in {*evidence.of_tensors("dead_units"), *evidence.of_tensors("saturated")}


def test_a_factor_that_is_trained_is_no_constant():
    net = Functional(torch.sin)
    net.operation = lambda x: torch.sin(net.scale * x)
    net.scale = nn.Parameter(torch.tensor(30.0))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with stepscope.watch(net, optimizer) as session:
        net(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
    assert "first" not in session.evidence().of_tensors("phase_std")
