"""Dropout that goes on in evaluation, and what draws random numbers there on purpose."""

import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.diagnosis.facts import LayerFacts
from debuggers.observed_training.dropout_calls import DropoutCalls


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


def with_its_gradient(net, hidden):
    """As a model of energies, whose forces are a gradient also where it is evaluated."""
    torch.set_grad_enabled(True)
    return functional.dropout(hidden, 0.5, net.training)


def by_hand(hidden):
    return hidden * ((torch.rand_like(hidden) > 0.5) * 2.0)


NETS = {
    "dropped": lambda: Net(lambda net, hidden: functional.dropout(hidden, 0.5)),
    "by hand": lambda: Net(lambda net, hidden: hidden * (torch.rand_like(hidden) > 0.4) / 0.6),
    "told": lambda: Net(lambda net, hidden: functional.dropout(hidden, 0.5, net.training)),
    "module": lambda: Net(lambda net, hidden: net.parts["drop"](hidden), drop=nn.Dropout(0.5)),
    "module and noise": lambda: Net(lambda net, hidden: noise(net, net.parts["drop"](hidden)), drop=nn.Dropout(0.5)),
    "noise": lambda: Net(noise),
    "told, and noise": lambda: Net(lambda net, hidden: noise(net, functional.dropout(hidden, 0.5, net.training))),
    "told, with its gradient": lambda: Net(with_its_gradient),
    "dropped, beside one of zero": lambda: Net(
        lambda net, hidden: by_hand(net.parts["drop"](hidden)), drop=nn.Dropout(0.0)
    ),
    "dropped, and noise": lambda: Net(lambda net, hidden: noise(net, functional.dropout(hidden, 0.5))),
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
                assert "dropout" not in vars(functional._VF)
    return [cause.code for cause in session.report().causes]


FAST = [
    ("dropped", False), ("by hand", False), ("module and noise", False), ("dropped", True), ("told, and noise", False),
    ("dropped, and noise", False), ("told, with its gradient", False), ("dropped, beside one of zero", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        pytest.param(name, tells, marks=() if (name, tells) in FAST else pytest.mark.slow)
        for name in NETS
        for tells in (False, True)
    ],
)
def test_dropout_that_is_no_module_goes_on_in_evaluation(name, tells):
    assert ("wrong_mode" in train(NETS[name](), tells=tells)) is name.startswith("dropped")


def test_a_model_is_traced_in_an_evaluation():
    net, rows = Net(lambda net, hidden: functional.dropout(hidden, 0.5, net.training)), torch.randn(64, 32)
    with stepscope.watch(net, torch.optim.SGD(net.parameters(), lr=0.05)) as session:
        functional.cross_entropy(net(rows), torch.zeros(64, dtype=torch.long)).backward()
        session.step(0.0)
        net.eval()
        with torch.no_grad():
            expected = net(rows)
            traced = torch.jit.trace(net, rows)
            assert torch.equal(traced(rows), expected)


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


def test_a_session_that_ends_within_an_evaluation_leaves_torchs_own_functions():
    net, sessions = Net(lambda net, hidden: ended(sessions, hidden)), []
    with stepscope.watch(net, torch.optim.SGD(net.parameters(), lr=0.05)) as session, torch.no_grad():
        net.eval()
        net(torch.randn(8, 32))
        assert "dropout" not in vars(functional._VF)
        sessions.append(session)
        net(torch.randn(8, 32))
        assert "dropout" not in vars(functional._VF)


def ended(sessions, hidden):
    assert "dropout" in vars(functional._VF)
    for session in sessions:
        session.close()
    return hidden


def test_dropouts_are_counted_while_a_model_evaluates_and_torch_has_its_own_again():
    own = functional._VF.dropout
    rows, counts, other = torch.ones(64, 8), DropoutCalls(), DropoutCalls()
    counts.start()
    other.start()
    for training in (True, False):
        torch.manual_seed(0)
        seen = functional.dropout(rows, 0.5, training)
        scripted = torch.jit.script(nn.Dropout(0.5).train(training))
        other.stop()
        torch.manual_seed(0)
        torch.testing.assert_close(seen, own(rows, 0.5, training), rtol=0, atol=0)
        torch.manual_seed(0)
        torch.testing.assert_close(scripted(rows), seen, rtol=0, atol=0)
    functional.dropout2d(rows[None], 0.5)
    functional.dropout(rows, 0.0)
    thread = threading.Thread(target=functional.dropout, args=(rows,))
    thread.start()
    thread.join()
    counts.stop()
    functional.dropout(rows, 0.5)
    assert (counts.dropping, counts.resting, other.dropping) == (2, 1, 1)
    assert "dropout" not in vars(functional._VF)


def test_dropouts_that_somebody_else_has_replaced_are_left_alone(monkeypatch):
    def theirs(tensor, share, training):
        return tensor

    monkeypatch.setattr(functional._VF, "dropout", theirs)
    counts = DropoutCalls()
    counts.start()
    functional.dropout(torch.ones(4), 0.5)
    counts.stop()
    assert functional._VF.dropout is theirs
    assert counts.dropping == 0
