"""Sound trainings whose pace is odd: schedules, batches of one and of all, averages, restarts and long plateaus."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim.lr_scheduler import CosineAnnealingLR, CyclicLR, LambdaLR, MultiStepLR, ReduceLROnPlateau, SequentialLR

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared


def _dense(features: int, classes: int, hidden: int = 40) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@healthy(at_least=0.9)
def a_warm_up_from_a_billionth(watch: Watch, *, seed: int) -> float:
    """The rate begins at a billionth, rises over a third of the training, and falls as a cosine."""
    data = datasets.digits(seed)
    net = _dense(64, 10)
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3)
    rise = LambdaLR(optimizer, lambda step: 1e-7 + step / 80)
    schedule = SequentialLR(optimizer, [rise, CosineAnnealingLR(optimizer, 160)], [80])
    fit(watch, net, optimizer, data, steps=240, scheduler=schedule, validate_every=40)
    return accuracy(net, data)


@healthy(at_least=0.9)
def triangles_of_the_rate(watch: Watch, *, seed: int) -> float:
    """``CyclicLR`` between 1e-3 and 0.1, six times up and down."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(90, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    schedule = CyclicLR(optimizer, 1e-3, 0.1, step_size_up=20)
    fit(watch, net, optimizer, data, steps=240, scheduler=schedule)
    return accuracy(net, data)


@healthy(at_least=0.85)
def a_batch_of_one(watch: Watch, *, seed: int) -> float:
    """One wine a step: the loss jumps from step to step, and falls on average."""
    data = datasets.wine(seed)
    net = _dense(13, 3, 16)
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.02), data, steps=400, batch_size=1)
    return accuracy(net, data)


@healthy(at_least=0.9)
def all_rows_in_each_step(watch: Watch, *, seed: int) -> float:
    """Whole-batch descent with much momentum: each batch has the same rows in another order."""
    data = datasets.breast_cancer(seed)
    net = _dense(30, 2, 20)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    fit(watch, net, optimizer, data, steps=100, batch_size=len(data.inputs), validate_every=10)
    return accuracy(net, data)


@healthy(at_least=0.9)
def two_drops_at_milestones(watch: Watch, *, seed: int) -> float:
    """The rate falls to a tenth twice, late, when the loss has come down."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    fit(watch, net, optimizer, data, steps=260, scheduler=MultiStepLR(optimizer, [180, 230]), validate_every=26)
    return accuracy(net, data)


@healthy(at_least=0.3)
def plateau_reduced_when_all_is_learnt(watch: Watch, *, seed: int) -> float:
    """A regression that has reached the noise of its data: the rate is halved again and again after that."""
    data = datasets.diabetes(seed)
    net = nn.Linear(10, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    session = watch(net, optimizer)
    for _ in range(30):
        for x, y in data.batches(42, 8):
            optimizer.zero_grad()
            guess = net(x)
            loss = F.mse_loss(guess, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=guess, targets=y)
            optimizer.step()
        with torch.no_grad(), session.validating():
            held_out = F.mse_loss(net(data.test_inputs), data.test_targets).item()
        session.validation(held_out)
        plateau.step(held_out)
    return r_squared(net, data)


@healthy(at_least=0.9)
def parity_that_comes_late(watch: Watch, *, seed: int) -> float:
    """The parity of three bits of ten: the loss stays at log 2 for long, and falls at once."""
    random = torch.Generator().manual_seed(seed)
    bits = torch.randint(2, (4000, 10), generator=random)
    parity = (bits[:, :3].sum(1) % 2).float()[:, None]
    signs = bits.float() * 2 - 1
    data = datasets.Data(signs[:3000], parity[:3000], signs[3000:], parity[3000:, 0])
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    loss = F.binary_cross_entropy_with_logits
    fit(watch, net, optimizer, data, steps=400, batch_size=100, loss_function=loss)
    return binary_accuracy(net, data)


@healthy(at_least=0.9)
def an_average_that_is_validated(watch: Watch, *, seed: int) -> float:
    """A slow average of the weights is validated and shipped, while the net itself is noisy at a large rate."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10))
    slow = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.5)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(24, 300), 1):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        with torch.no_grad():
            for kept, weight in zip(slow.parameters(), net.parameters(), strict=True):
                kept.lerp_(weight, 0.05)
        if step % 60 == 0:
            with torch.no_grad(), session.validating():
                session.validation(F.cross_entropy(slow(data.test_inputs), data.test_targets).item())
    return accuracy(slow, data)


@healthy(at_least=0.9)
def lbfgs_with_a_strong_search(watch: Watch, *, seed: int) -> float:
    """LBFGS with a line search, which evaluates its closure several times a step."""
    data = datasets.wine(seed)
    net = nn.Sequential(nn.Linear(13, 12), nn.Tanh(), nn.Linear(12, 3))
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    session = watch(net, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        out = net(data.inputs)
        loss = F.cross_entropy(out, data.targets) + 1e-3 * sum(p.square().sum() for p in net.parameters())
        loss.backward()
        return loss

    for _ in range(20):
        session.step(closure(), inputs=data.inputs, targets=data.targets)
        optimizer.step(closure)  # type: ignore[arg-type]
    return accuracy(net, data)


@healthy(at_least=0.85)
def clipped_at_nearly_every_step(watch: Watch, *, seed: int) -> float:
    """A norm of 0.25 before Adam, which does not mind: nearly all gradients of the LSTM are shortened."""
    data = datasets.digits(seed, images=True)

    class Lines(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, 32, batch_first=True), nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(images.squeeze(1))[0][:, -1])

    net = Lines()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 220):
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@healthy(at_least=0.9)
def stopped_when_nothing_improves(watch: Watch, *, seed: int) -> float:
    """Early stopping with patience, and the best weights restored at the end."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, optimizer)
    best, kept, patience = math.inf, copy.deepcopy(net.state_dict()), 4
    for _ in range(30):
        for x, y in data.batches(64, 21):
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        with session.validating():
            held_out = F.cross_entropy(predicted(net, data.test_inputs), data.test_targets).item()
        session.validation(held_out)
        patience = 4 if held_out < best else patience - 1
        if held_out < best:
            best, kept = held_out, copy.deepcopy(net.state_dict())
        if patience == 0:
            break
    net.load_state_dict(kept)
    return accuracy(net, data)


@healthy(at_least=0.55)
def rates_from_layer_to_layer(watch: Watch, *, seed: int) -> float:
    """Each layer has a rate of its own, from 1e-4 at the embedding to 2e-2 at the head, and no decay for biases."""
    train, test = samples.names(seed)
    embed, read, head = nn.EmbeddingBag(samples.LETTERS, 48, padding_idx=0), nn.Linear(48, 48), nn.Linear(48, 8)
    net = nn.Sequential(embed, read, nn.ReLU(), head)
    groups = [
        {"params": embed.parameters(), "lr": 5e-4},
        {"params": read.parameters(), "lr": 5e-3},
        {"params": [head.weight], "lr": 2e-2},
        {"params": [head.bias], "lr": 2e-2, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.05)
    data = datasets.Data(*train.tensors, *test.tensors)
    fit(watch, net, optimizer, data, steps=300, batch_size=32)
    return accuracy(net, data)
