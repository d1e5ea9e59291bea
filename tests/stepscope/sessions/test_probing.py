"""``session.probe``: what it leaves untouched, what it takes, and where its results go."""

import random

import numpy as np
import pytest
import torch
from digits_data import digits_data
from torch import nn
from torch.nn import functional

import stepscope

_IMAGES, _LABELS = digits_data()
IMAGES, LABELS = torch.tensor(_IMAGES / 16, dtype=torch.float32), torch.tensor(_LABELS)


class Net(nn.Module):
    def __init__(self, *, mixes=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
        self.mixes = mixes

    def forward(self, x):
        np.random.rand()
        random.random()
        x = self.body(x)
        return x.flip(0) if self.mixes else x


def train(kind, *, probes, mixes=False):
    torch.manual_seed(0)
    model = Net(mixes=mixes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    watches = kind == "watch"
    session = stepscope.watch(model, optimizer) if watches else stepscope.DebugSession(model, optimizer)
    losses, report = [], None
    with session:
        for step in range(8):
            rows = slice(step * 32, step * 32 + 32)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(IMAGES[rows]), LABELS[rows])
            loss.backward()
            if not watches:
                session.step(loss)
            optimizer.step()
            losses.append(loss.item())
            if probes and step in (3, 5):
                report = session.probe((IMAGES[rows], LABELS[rows]), steps=10)
    numbers = (torch.rand(1).item(), np.random.rand(), random.random())
    state = [tensor.clone() for tensor in model.state_dict().values()]
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    modes = [module.training for module in model.modules()]
    return session, report, (losses, numbers, modes), [*state, *grads]


@pytest.mark.parametrize("kind", ["watch", "session"])
def test_training_goes_on_bit_for_bit(kind):
    random.seed(1)
    np.random.seed(1)
    _, _, plain, tensors = train(kind, probes=False)
    random.seed(1)
    np.random.seed(1)
    session, report, probed, others = train(kind, probes=True)
    assert plain == probed
    assert all(map(torch.equal, tensors, others))
    assert not report.failures
    assert session.last_step == 7
    assert session.evidence().facts.probes == report.results
    assert report.step == 5


def test_what_mixes_the_batch_is_a_cause():
    session, report, _, _ = train("watch", probes=True, mixes=True)
    assert report.results["batch_mixing"]["mixed"]
    assert "batch_mixing" in [cause.code for cause in session.report().causes]
    assert "batch_mixing" not in [cause.code for cause in train("watch", probes=True)[0].report().causes]


def test_forward_gets_the_copy():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = {"pixels": IMAGES[:32], "digits": LABELS[:32]}
    with stepscope.watch(model, optimizer) as session:
        seen = []

        def forward(given, batch):
            seen.append(given)
            return functional.cross_entropy(given(batch["pixels"]), batch["digits"])

        report = session.probe(batch, forward=forward, steps=5)
        assert {"fit_one_batch", "batch_mixing", "zeroed_inputs"} <= set(report.results)
        assert model not in seen
        wrong = session.probe(
            batch, forward=lambda _, one: functional.cross_entropy(model(one["pixels"]), one["digits"])
        )
        assert "never called the model" in wrong.failures["fit_one_batch"]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (IMAGES[:4], {}, "expected \\(inputs, targets\\)"),
        ((IMAGES[:4],), {}, "tuple of 1"),
        ((IMAGES[:4], LABELS[:4]), {}, "loss is not known"),
        ((IMAGES[:4], LABELS[:4]), {"loss": 3}, "loss is 3"),
        ((IMAGES[:4], LABELS[:4]), {"loss": len, "forward": len}, "both"),
        ((IMAGES[:4], LABELS[:4]), {"loss": functional.cross_entropy, "steps": 0}, "steps is 0"),
    ],
)
def test_wrong_arguments(batch, options, message):
    model = Net()
    with (
        stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session,
        pytest.raises(stepscope.SessionError, match=message),
    ):
        session.probe(batch, **options)


def test_a_batch_without_rows_is_told():
    model = nn.Linear(2, 1)
    with (
        stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session,
        pytest.raises(stepscope.SessionError, match=r"no rows: its tensors have the shapes \(0, 2\), \(0, 1\)"),
    ):
        session.probe((torch.ones(0, 2), torch.ones(0, 1)))


def test_a_batch_of_arrays_is_told_from_one_of_tensors():
    model = nn.Linear(2, 1)
    with stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session:
        with pytest.raises(stepscope.SessionError, match="holds no tensor but ndarray, list; expected tensors"):
            session.probe((np.ones((4, 2)), [1.0]))
        with pytest.raises(stepscope.SessionError, match="holds no tensor but nothing"):
            session.probe({})
