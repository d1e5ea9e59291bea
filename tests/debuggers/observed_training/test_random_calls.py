"""Dropout that goes on in evaluation, and what draws random numbers there on purpose."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.diagnosis.facts import LayerFacts


class Net(nn.Module):
    """(N, 32) to (N, 4) with something random between."""

    def __init__(self, between, **parts):
        super().__init__()
        self.read, self.out = nn.Linear(32, 48), nn.Linear(48, 4)
        self.parts = nn.ModuleDict(parts)
        self.between = between

    def forward(self, rows):
        return self.out(self.between(self, self.read(rows).relu()))


def noise(net, hidden):
    return hidden + 0.1 * torch.randn_like(hidden)


NETS = {
    "dropped": lambda: Net(lambda net, hidden: functional.dropout(hidden, 0.5)),
    "by hand": lambda: Net(lambda net, hidden: hidden * (torch.rand_like(hidden) > 0.4) / 0.6),
    "told": lambda: Net(lambda net, hidden: functional.dropout(hidden, 0.5, net.training)),
    "module": lambda: Net(lambda net, hidden: net.parts["drop"](hidden), drop=nn.Dropout(0.5)),
    "module and noise": lambda: Net(lambda net, hidden: noise(net, net.parts["drop"](hidden)), drop=nn.Dropout(0.5)),
    "noise": lambda: Net(noise),
    "relu": lambda: Net(lambda net, hidden: hidden * (hidden.detach() > 0)),
}


def train(net, *, repeats=1, tells=False):
    """The codes of the causes, and the weights at the end."""
    torch.manual_seed(0)
    rows, classes = torch.randn(96, 32), torch.randint(0, 4, (96,))
    others = rows[64:]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    with stepscope.watch(net, optimizer) as session:
        for step in range(24):
            optimizer.zero_grad()
            functional.cross_entropy(net(rows[:64]), classes[:64]).backward()
            optimizer.step()
            if step % 6 == 5:
                net.eval()
                with torch.no_grad(), session.validating() if tells else nullcontext():
                    for _ in range(repeats):
                        net(others)
                net.train()
    return [cause.code for cause in session.report().causes]


FAST = [("dropped", False), ("by hand", False), ("module and noise", False), ("dropped", True)]


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        pytest.param(name, tells, marks=() if (name, tells) in FAST else pytest.mark.slow)
        for name in NETS
        for tells in (False, True)
    ],
)
def test_dropout_that_is_no_module_goes_on_in_evaluation(name, tells):
    assert ("wrong_mode" in train(NETS[name](), tells=tells)) is (name == "dropped")


def test_one_batch_again_and_again_is_meant_to_differ():
    assert "wrong_mode" not in train(NETS["dropped"](), repeats=5)


def test_functional_dropout_is_a_layer_with_its_share():
    net = Net(lambda net, hidden: functional.dropout(hidden, 0.8, net.training))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    with stepscope.watch(net, optimizer) as session:
        for _ in range(3):
            functional.cross_entropy(net(torch.randn(64, 32)), torch.zeros(64, dtype=torch.long)).backward()
            optimizer.step()
    assert session.evidence().facts.layers[-1] == LayerFacts(name="functional.dropout", kind="Dropout", value=0.8)
