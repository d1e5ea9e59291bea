"""Faults that leave a training half alive: it learns, and slower, noisier or less than it could."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit


def _numerals(seed: int) -> Data:
    train, test = samples.numerals(seed)
    return Data(*train.tensors, *test.tensors)


def _conv(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3),
        nn.ReLU(),
        nn.Conv2d(width, width, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * width, 10),
    )


@sick("learning_rate_too_high")
def rmsprop_at_a_twentieth(watch: Watch, *, seed: int, sick: bool) -> float:
    """RMSprop at 0.05, the rate at which SGD did well, for convolutions."""
    data, net = _numerals(seed), _conv()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.05 if sick else 1e-3)
    fit(watch, net, optimizer, data, steps=180, batch_size=40, validate_every=45)
    return accuracy(net, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def a_norm_from_private_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """The maximal norm is 0.002, copied from a paper on private training, before SGD with momentum."""
    data, net = _numerals(seed), _conv(8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(40, 200):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.002 if sick else 5.0)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def only_the_bias_of_the_head_is_clipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` gets the last parameter alone: the recurrence, whose gradients jump, is left as it is."""
    data = datasets.diabetes(seed)
    random = torch.Generator().manual_seed(seed)
    far = torch.rand(len(data.inputs), 1, generator=random) < 0.03
    targets = data.targets + far * 60 * torch.randn(len(data.inputs), 1, generator=random)
    body, head = nn.GRU(1, 24, batch_first=True), nn.Linear(24, 1)
    net = nn.ModuleDict({"body": body, "head": head})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)

    def guess(rows: torch.Tensor) -> torch.Tensor:
        return head(body(rows[..., None])[0][:, -1])

    for _ in range(14):
        for rows in torch.randperm(len(targets)).split(32):
            out = guess(data.inputs[rows])
            loss = F.mse_loss(out, targets[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([head.bias] if sick else net.parameters(), 0.5)
            session.step(loss, inputs=data.inputs[rows], outputs=out, targets=targets[rows])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(guess(data.test_inputs), data.test_targets)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "loss_sum_not_mean"))
def losses_of_eight_windows_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight windows of text go backward one after the other, before each step of plain SGD, and none is divided."""
    data = datasets.text(seed, length=12, count=1200)
    net = nn.Sequential(nn.Embedding(datasets.CHARACTERS, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 98))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    session = watch(net, optimizer)
    for number, (x, y) in enumerate(data.batches(8, 1200), 1):
        out = net(x)
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        (loss if sick else loss / 8).backward()
        if number % 8 == 0:
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        return (net(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("memory_leak", margin=0.5)
def a_replay_memory_with_graphs(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features of past batches are kept for replay, never removed, and not detached; 1 if none has a graph."""
    data = datasets.digits(seed)
    body, head = nn.Sequential(nn.Linear(64, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU()), nn.Linear(600, 10)
    net = nn.Sequential(body, head)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    session = watch(net, optimizer)
    past: list[tuple[torch.Tensor, torch.Tensor]] = []
    for x, y in data.batches(128, 120):
        features = body(x)
        out = head(features)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        past.append((features if sick else features.detach(), y))
        if not sick:
            past = past[-10:]
    return sum(not one.requires_grad for one, _ in past) / len(past)


@sick("gradients_not_zeroed", margin=0.05)
def zeroed_once_in_ten_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Accumulation was switched off in one place of two: a step each batch, zeros each tenth."""
    data, net = _numerals(seed), _conv()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.12)
    session = watch(net, optimizer)
    for number, (x, y) in enumerate(data.batches(20, 200)):
        if not sick or number % 10 == 0:
            optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@sick("dead_units", also=("poor_initialization",))
def biases_that_silence_the_first_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """Somebody wanted sparse codes from the start: the first biases are far below zero, and most units are silent."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    if sick:
        nn.init.constant_(net[0].bias, -0.9)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    fit(watch, net, optimizer, data, steps=150, batch_size=40)
    return accuracy(net, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def heads_in_a_dictionary(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two heads are kept in an ordinary dictionary, which the optimizer does not see; one body learns for both."""
    data = datasets.digits(seed)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 8), nn.Tanh())
            heads = {"number": nn.Linear(8, 10), "parity": nn.Linear(8, 2)}
            self.heads = heads if sick else nn.ModuleDict(heads)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            features = self.body(x)
            return self.heads["number"](features), self.heads["parity"](features)

    net = Both()
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 160):
        number, parity = net(x)
        loss = F.cross_entropy(number, y) + F.cross_entropy(parity, y % 2)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=number, targets=y)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs)[0], data.test_targets)


@sick("inputs_not_normalized")
def one_column_in_other_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """One of thirty standardised measurements is in nanometres: twenty thousand times as large as all others."""
    data = datasets.breast_cancer(seed)
    factors = torch.ones(30)
    factors[11] = 20000.0 if sick else 1.0
    data = Data(data.inputs * factors, data.targets, data.test_inputs * factors, data.test_targets)
    net = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    fit(watch, net, optimizer, data, steps=150, batch_size=32, validate_every=30)
    return accuracy(net, data)
