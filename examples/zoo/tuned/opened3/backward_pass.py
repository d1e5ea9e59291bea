"""Gradients between ``backward`` and ``step``: kept, added up, clipped too much or in vain."""

import copy
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import clip_grad_norm_

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, r_squared

from . import material
from .speeds import Listener


class Trainer:
    """A trainer as many have one, with hooks to override."""

    def __init__(self, net: nn.Module, optimizer: torch.optim.Optimizer, *, zero_in_step: bool) -> None:
        self.net, self.optimizer, self.zero_in_step = net, optimizer, zero_in_step
        self.optimizer.zero_grad()

    def fit(self, watch: Watch, batches: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Trains on the batches."""
        session = watch(self.net, self.optimizer)
        for x, y in batches:
            if self.zero_in_step:
                self.optimizer.zero_grad()
            out = self.net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            self.optimizer.step()


@sick("gradients_not_zeroed", margin=0.1)
def zeroed_in_the_constructor_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """A trainer's ``zero_grad`` stands in its constructor, from where nobody moved it into the loop."""
    data = material.waves(seed, noise=0.2)
    net = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
    Trainer(net, optimizer, zero_in_step=not sick).fit(watch, data.batches(32, 300))
    return accuracy(net, data)


@sick("gradients_not_zeroed", margin=0.05)
def the_copy_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` is called on the averaged copy, which never has a gradient, instead of on the model."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    ema = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 250):
        (ema if sick else net).zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        with torch.no_grad():
            for mean, value in zip(ema.parameters(), net.parameters(), strict=True):
                mean.lerp_(value, 0.05)
    return accuracy(ema, data)


@sick("gradients_not_zeroed", margin=0.1)
def zeroed_on_a_condition_that_is_rare(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` slipped under the ``if`` that logs a new best loss."""
    data = material.curve(seed)
    net = material.mlp(4, 40, 1, act=nn.Tanh)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session, best = watch(net, optimizer), float("inf")
    for x, y in data.batches(32, 300):
        out = net(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        if loss.item() < best:
            best = loss.item()
            if sick:
                optimizer.zero_grad()
        if not sick:
            optimizer.zero_grad()
    return r_squared(net, data)


def _accumulated(
    watch: Watch,
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    *,
    parts: int,
    steps: int,
    size: int,
    divisor: int,
) -> None:
    session, batches = watch(net, optimizer), data.batches(size, parts * steps)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(parts):
            x, y = next(batches)
            out = net(x)
            loss = F.cross_entropy(out, y) / divisor
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "loss_sum_not_mean"), margin=0.05)
def twenty_series_at_a_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net of convolutions takes twenty micro-batches of four series before each step, and each counts in full."""
    data = material.waves(seed, noise=0.2)
    net = nn.Sequential(
        nn.Unflatten(1, (1, -1)), nn.Conv1d(1, 16, 5), nn.ReLU(), nn.Conv1d(16, 16, 5), nn.ReLU(),
        nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    _accumulated(watch, net, optimizer, data, parts=20, steps=80, size=4, divisor=1 if sick else 20)
    return accuracy(net, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "loss_sum_not_mean"), margin=0.05)
def twelve_pages_of_drawings(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve micro-batches of eight drawings are added up before a step of SGD; the division was lost in a merge."""
    data, _, _ = material.drawings(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 3),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.06, momentum=0.9)
    _accumulated(watch, net, optimizer, data, parts=12, steps=90, size=8, divisor=1 if sick else 12)
    return accuracy(net, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.2)
def a_norm_of_absolute_values(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_(…, 0.01, norm_type=1)``: the sum of thousands of absolute values is held at a hundredth."""
    data = material.brackets(seed)
    net = nn.Sequential(nn.Embedding(3, 16), nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 250):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        clip_grad_norm_(net.parameters(), 0.01 if sick else 5.0, norm_type=1 if sick else 2)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.2)
def the_epsilon_was_taken_for_the_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecaster's gradients are clipped at the 1e-3 that another line of the configuration had."""
    data = material.forecast(seed)
    net = Listener(24, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 200):
        out = net(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(net.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return r_squared(net, data)


def _identity(width: int) -> nn.RNN:
    """Returns a recurrence of ReLUs that starts as the identity."""
    rnn = nn.RNN(1, width, nonlinearity="relu", batch_first=True)
    with torch.no_grad():
        nn.init.eye_(rnn.weight_hh_l0)
        nn.init.normal_(rnn.weight_ih_l0, std=0.1)
    return rnn


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipped_after_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients of a recurrence of ReLUs jump; they are clipped, one line below ``optimizer.step()``."""
    data = material.waves(seed, noise=0.1)
    rnn, head = _identity(40), nn.Linear(40, 4)
    net = nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 500):
        out = head(rnn(x[..., None])[1][0])
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        if not sick:
            clip_grad_norm_(net.parameters(), 0.5)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        if sick:
            clip_grad_norm_(net.parameters(), 0.5)
    with torch.no_grad():
        return material.hit_rate(head(rnn(data.test_inputs[..., None])[1][0]), data.test_targets)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def the_other_net_is_clipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """The clipped parameters are those of the frozen teacher, under a name that two nets had in turn."""
    data = material.forecast(seed, length=24)
    teacher, net = nn.RNN(1, 32, batch_first=True), _identity(32)
    head = nn.Linear(32, 1)
    model = nn.ModuleDict({"net": net, "head": head})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for x, y in data.batches(32, 250):
        out = head(net(x[..., None])[1][0])
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_((teacher if sick else model).parameters(), 1.0)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(head(net(data.test_inputs[..., None])[1][0]), data.test_targets)
