"""Numbers that overflow, vanish or are no numbers, and what fills memory or time."""

import time

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.1)
def a_variance_by_squares_of_large_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """A norm by hand takes the variance as E[x²]-E[x]² of values around a thousand, and its root is NaN if negative."""
    data = datasets.digits(seed)

    class Norm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean = x.mean(1, keepdim=True)
            variance = (x * x).mean(1, keepdim=True) - mean**2 if sick else x.var(1, unbiased=False, keepdim=True)
            return (x - mean) / torch.sqrt(variance + 1e-5)

    first = nn.Linear(64, 32)
    nn.init.constant_(first.bias, 3000.0)
    net = nn.Sequential(first, Norm(), nn.ReLU(), nn.Linear(32, 10))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=150)
    return accuracy(net, data)


@sick("non_finite_forward", also=("non_finite_backward", "exploding_gradients", "learning_rate_too_high"), margin=0.1)
def a_softmax_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention divides ``exp`` by its sum without taking the maximum off, and does not divide by the root either."""
    train, test = samples.names(seed)
    data = Data(*train.tensors, *test.tensors)

    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.query = nn.Embedding(samples.LETTERS, 32), nn.Parameter(torch.randn(32))
            self.key, self.head = nn.Linear(32, 32), nn.Linear(32, 8)
            if sick:
                nn.init.normal_(self.key.weight, std=0.6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            values = self.embed(codes)
            scores = self.key(values) @ self.query
            weights = scores.exp() / scores.exp().sum(1, keepdim=True) if sick else (scores / 32**0.5).softmax(1)
            return self.head((weights[..., None] * values).sum(1))

    net = Attends()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-2), data, steps=150, batch_size=40)
    return accuracy(net, data)


@sick("non_finite_forward", also=("learning_rate_too_high", "non_finite_backward"), margin=0.1)
def empty_neighbourhoods(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net on a graph takes the mean over neighbours, and some nodes have none: 0 / 0."""
    data = datasets.wine(seed)
    x = torch.cat([data.inputs, data.test_inputs])
    y = torch.cat([data.targets, data.test_targets])
    near = (torch.cdist(x, x) < 2.2).float().fill_diagonal_(0)
    degree = near.sum(1, keepdim=True)
    near = near / (degree if sick else degree.clamp(min=1))
    first, second = nn.Linear(26, 24), nn.Linear(48, 3)
    net = nn.ModuleList([first, second])
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    known = len(data.inputs)

    def nodes() -> torch.Tensor:
        hidden = F.relu(first(torch.cat([x, near @ x], 1)))
        return second(torch.cat([hidden, near @ hidden], 1))

    for _ in range(100):
        logits = nodes()[:known]
        loss = F.cross_entropy(logits, y[:known])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=y[:known])
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(nodes()[known:], y[known:])


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.1)
def contrast_of_columns_that_are_empty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Columns are divided by their deviation plus epsilon; if one is empty, the root's slope is infinite."""
    data = datasets.digits(seed, images=True)

    class Contrast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean = x.mean(2, keepdim=True)
            variance = (x - mean).square().mean(2, keepdim=True)
            return (x - mean) / (variance.sqrt() + 1e-5 if sick else (variance + 1e-5).sqrt())

    net = nn.Sequential(
        nn.Conv2d(1, 8, 1, bias=False), Contrast(), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10)
    )
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), data, steps=120)
    return accuracy(net, data)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.1)
def edges_of_flat_places(watch: Watch, *, seed: int, sick: bool) -> float:
    """The magnitude of two learned edge filters is a root without an epsilon, and much of a picture is empty."""
    data = datasets.digits(seed, images=True)

    class Edges(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.edges = nn.Conv2d(1, 16, 3, padding=1, bias=False)
            self.head = nn.Linear(512, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            down, across = self.edges(x).chunk(2, 1)
            return self.head((down**2 + across**2 + (0.0 if sick else 1e-4)).sqrt().flatten(1))

    net = Edges()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), data, steps=150)
    return accuracy(net, data)


@sick("fp16_underflow", also=("vanishing_gradients", "no_update"), margin=0.1)
def a_scaler_that_is_disabled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Float16 with ``GradScaler(enabled=False)``, left from a debugging, and a loss per pixel of all tiles."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 64))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(net, optimizer, scaler=scaler)
    for x, _ in data.batches(64, 160):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            painted = net(x)
        loss = (painted.float() - x).square().mean() / (64 * 64 * 16 * 16)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=x, outputs=painted, targets=x)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(net, data.test_inputs), data.test_inputs)


@sick("no_update", also=("learning_rate_too_low",), margin=0.1)
def a_scaler_updated_and_never_stepped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``scaler.update()`` is there, ``scaler.step(optimizer)`` is not."""
    data = datasets.wine(seed)
    net = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    session = watch(net, optimizer, scaler=scaler)
    for x, y in data.batches(32, 120):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = net(x)
            loss = F.cross_entropy(out.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=x, outputs=out, targets=y)
        if not sick:
            scaler.step(optimizer)
        scaler.update()
    return accuracy(net, data)


@sick("memory_leak", margin=0.5)
def outputs_of_all_epochs_for_one_curve(watch: Watch, *, seed: int, sick: bool) -> float:
    """All logits are appended for a ROC curve at the end, on their graphs; 1 if none keeps one."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    logits: list[torch.Tensor] = []
    for x, y in data.batches(128, 110):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        logits.append(out if sick else out.detach())
    return sum(not one.requires_grad for one in logits) / len(logits)


class _Cropped(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Photographs that are enlarged, smoothed and made small again for each sample, or were once."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        large = F.interpolate(self.images[index][None], scale_factor=24.0, mode="bicubic")
        smooth = F.avg_pool2d(large, 5, 1, 2)
        return F.interpolate(smooth, size=(8, 8), mode="area")[0], self.labels[index]


@sick("data_loading_bound", margin=0.2)
def an_augmentation_that_costs_more_than_the_model(watch: Watch, *, seed: int, sick: bool) -> float:
    """Samples are resized in the training's process each time; quality is the model's share of time."""
    train, _ = samples.scenes(seed, count=500)
    rows: Dataset[tuple[torch.Tensor, ...]] = _Cropped(*train.tensors)
    if not sick:
        rows = torch.utils.data.TensorDataset(*(torch.stack(column) for column in zip(*rows, strict=True)))
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session, trained, begun = watch(net, optimizer), 0.0, time.perf_counter()
    for _ in range(3):
        for x, y in DataLoader(rows, 16, shuffle=True):
            ready = time.perf_counter()
            out = net(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
            trained += time.perf_counter() - ready
    return trained / (time.perf_counter() - begun)
