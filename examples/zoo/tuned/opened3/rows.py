"""Which rows come when, how often, and whether they know of each other."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted

from . import material


@sick("class_imbalance", margin=0.1)
def frauds_are_one_in_sixty(watch: Watch, *, seed: int, sick: bool) -> float:
    """One row of sixty is a fraud; the twin draws both kinds equally often. Quality: mean recall of both."""
    random = material.drawn(seed)
    fraud = torch.rand(1800, generator=random) < 1 / 60
    x = torch.randn(1800, 6, generator=random) + fraud[:, None] * torch.tensor([1.2, -1.0, 0.8, 0, 0, 0.5])
    data = material.parted(x, fraud.float()[:, None])
    weights = torch.where(data.targets[:, 0] > 0, 1 / data.targets.mean(), 1 / (1 - data.targets.mean()))
    weights = torch.ones(len(weights)) if sick else weights
    net = material.mlp(6, 16, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-2)
    session = watch(net, optimizer)
    for _ in range(250):
        rows = torch.multinomial(weights, 48, replacement=True)
        out = net(data.inputs[rows])
        loss = F.binary_cross_entropy_with_logits(out, data.targets[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=out, targets=data.targets[rows])
        optimizer.step()
    return material.balanced((predicted(net, data.test_inputs)[:, 0] > 0).float(), data.test_targets[:, 0])


@sick("unshuffled_data", margin=0.05)
def drawings_written_kind_by_kind(watch: Watch, *, seed: int, sick: bool) -> float:
    """A generator of drawings writes all disks, then all boxes, then all crosses, and the loader keeps the order."""
    data, _, _ = material.drawings(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), 25, shuffle=not sick)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3))  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
    return accuracy(net, data)


class Shards(IterableDataset[tuple[Tensor, Tensor]]):
    """Rows in shards by class, as an export by label leaves them, with or without a buffer to shuffle in."""

    def __init__(self, x: Tensor, y: Tensor, buffer: int) -> None:
        order = y.argsort(stable=True)
        self.x, self.y, self.buffer = x[order], y[order], buffer

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for part in torch.arange(len(self.x)).split(self.buffer):
            for row in part[torch.randperm(len(part))]:
                yield self.x[row], self.y[row]


@sick("unshuffled_data", margin=0.05)
def shards_by_class_and_a_small_buffer(watch: Watch, *, seed: int, sick: bool) -> float:
    """An ``IterableDataset`` of shards by class shuffles in a buffer of forty rows; the twin's holds all rows."""
    data = datasets.digits(seed)
    loader = DataLoader(Shards(data.inputs, data.targets, 40 if sick else 4000), 32)
    net = material.mlp(64, 48, 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for _ in range(7):
        for x, y in loader:
            out = net(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
    return accuracy(net, data)


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def an_oversampling_before_anything_else(watch: Watch, *, seed: int, sick: bool) -> float:
    """``RandomSampler`` over a subset of thirty-two rows, left from a trial of the loop, with replacement."""
    data = datasets.digits(seed)
    rows = torch.arange(32) if sick else torch.arange(len(data.inputs))
    found = TensorDataset(data.inputs[rows], data.targets[rows])
    loader = DataLoader(found, 32, sampler=RandomSampler(found, replacement=True, num_samples=32 * 200))
    net = material.mlp(64, 64, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
    session = watch(net, optimizer)
    for x, y in loader:
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@sick("duplicated_data", also=("overfitting", "inputs_constant"), margin=0.1)
def an_iterator_made_anew_for_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in each step, with a loader whose generator is seeded anew: always the same batch."""
    data = material.waves(seed, noise=0.3)
    found = TensorDataset(data.inputs, data.targets)
    net = material.mlp(32, 64, 4)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    batches = iter(DataLoader(found, 32, sampler=RandomSampler(found, num_samples=32 * 220)))
    for _ in range(220):
        if sick:
            batches = iter(DataLoader(found, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)))
        x, y = next(batches)
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


class Gathered(nn.Module):
    """Attention between the points of a cloud, and a mean of what they found."""

    def __init__(self, kinds: int, *, axis: int) -> None:
        super().__init__()
        self.each, self.axis = material.mlp(2, 24, 24), axis
        self.query, self.key, self.head = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, kinds)

    def forward(self, clouds: Tensor) -> Tensor:
        """Returns scores (N, K) of clouds (N, P, 2)."""
        points = self.each(clouds)
        if self.axis == 0:
            points = points.transpose(0, 1)
        near = (self.query(points) @ self.key(points).transpose(1, 2) / 24**0.5).softmax(-1) @ points
        if self.axis == 0:
            near = near.transpose(0, 1)
        return self.head(near.amax(1))


@sick("batch_mixing", margin=0.1)
def clouds_that_look_at_each_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention runs over the clouds of the batch instead of the points of a cloud; judged one cloud at a time."""
    data = material.clouds(seed)
    net = Gathered(1, axis=0 if sick else 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    fit(watch, net, optimizer, data, steps=260, batch_size=32, loss_function=F.mse_loss)
    said = torch.cat([predicted(net, cloud[None]) for cloud in data.test_inputs])
    return material.fit_of(said, data.test_targets)


@sick("batch_mixing", margin=0.1)
def standardised_by_the_batch_in_the_forward_pass(watch: Watch, *, seed: int, sick: bool) -> float:
    """Series are centred and scaled with ``mean(0)`` of what is in the batch, not of the series; judged one by one."""
    data = material.waves(seed, noise=0.2)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = material.mlp(32, 48, 4)

        def forward(self, x: Tensor) -> Tensor:
            axis = 0 if sick else 1
            return self.net((x - x.mean(axis, keepdim=True)) / (x.var(axis, keepdim=True, correction=0) + 1e-5).sqrt())

    net = Scaled()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=4e-3), data, steps=240, batch_size=16)
    said = torch.cat([predicted(net, one[None]) for one in data.test_inputs])
    return material.hit_rate(said, data.test_targets)


@sick("batch_mixing", margin=0.1)
def pictures_reshaped_across_their_border(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features (N, C, places) become tokens by ``reshape(places, N, C)``, which deals them out over the batch."""
    data, _, _ = material.drawings(seed)
    conv = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1))
    block = nn.TransformerEncoderLayer(16, 2, 32, 0.0)
    net = nn.ModuleDict({"conv": conv, "block": block, "head": nn.Linear(16, 3)})

    def forward(images: Tensor) -> Tensor:
        found = conv(images).flatten(2)
        count, width, places = found.shape
        tokens = found.reshape(places, count, width) if sick else found.permute(2, 0, 1)
        return net["head"](block(tokens).mean(0))

    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 400):
        out = forward(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        return material.hit_rate(torch.cat([forward(one[None]) for one in data.test_inputs]), data.test_targets)
