"""Sound trainings in which a part of a model takes a part of the steps, of the rows or of the pixels."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened13.field_tools import judged, throws


class _Gated(nn.Module):
    """Four small experts, of which a gate chooses one for each row; the share of each is kept even by a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(3, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1)) for _ in range(4))
        self.uneven = torch.zeros(())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        shares = self.gate(rows).softmax(1)
        chosen = shares.argmax(1)
        load = functional.one_hot(chosen, 4).float().mean(0)
        self.uneven = 4 * (load * shares.mean(0)).sum()
        outputs = torch.stack([expert(rows)[:, 0] for expert in self.experts], 1)
        return (outputs * shares).gather(1, chosen[:, None])


@healthy(at_least=0.9)
def one_of_four_experts_per_row(watch: Watch, *, seed: int) -> float:
    """Each row is answered by one expert, whose gradient comes from a part of the batch, or from none of it."""
    train, test = samples.standardised(throws(seed), 0, 1)
    model = _Gated()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows, distances in DataLoader(train, batch_size=50, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, distances) + 0.01 * model.uneven
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=distances)
            optimizer.step()
    return judged(model, test, samples.explained)


class _Deep(nn.Module):
    """Convolutional residual blocks, each of which is left out of a training step now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)) for _ in range(4)
        )
        self.head = nn.Linear(256, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.stem(images)
        for block in self.blocks:
            if not self.training:
                maps = maps + 0.8 * block(maps)
            elif torch.rand(()) < 0.8:
                maps = maps + block(maps)
        logits: torch.Tensor = self.head(functional.relu(maps).flatten(1))
        return logits


@healthy(at_least=0.9)
def blocks_that_are_left_out_at_times(watch: Watch, *, seed: int) -> float:
    """Stochastic depth: a fifth of the time a block takes no part in a step and gets no gradient."""
    train, test = samples.numerals(seed)
    model = _Deep()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.9)
def two_optimizers_for_codes_and_centres(watch: Watch, *, seed: int) -> float:
    """A net learns by Adam, and the centres of its classes by SGD at a rate of 0.5, from one loss with two terms."""
    train, test = samples.numerals(seed)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    centres = nn.Embedding(10, 10)
    nn.init.zeros_(centres.weight)
    of_body = torch.optim.Adam(body.parameters(), lr=3e-3)
    of_centres = torch.optim.SGD(centres.parameters(), lr=0.5)
    learning, following = watch(body, of_body), watch(centres, of_centres)
    for _ in range(9):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            logits = body(images)
            distance = (logits - centres(labels)).square().sum(1).mean()
            loss = functional.cross_entropy(logits, labels) + 0.01 * distance
            for optimizer in (of_body, of_centres):
                optimizer.zero_grad()
            loss.backward()
            centres.weight.grad.mul_(100)  # type: ignore[union-attr]  # the centres' own rate is of the distance alone
            learning.step(loss, inputs=images, outputs=logits, targets=labels)
            of_body.step()
            following.step(loss)
            of_centres.step()
    return judged(body, test)


@healthy(at_least=0.85)
def a_tiny_net_of_three_units(watch: Watch, *, seed: int) -> float:
    """Three hidden units for four columns and three classes: few weights, small batches, large changes."""
    data = datasets.iris(seed)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for rows, species in data.batches(8, 250):
        optimizer.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, species)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=species)
        optimizer.step()
    return judged(model, TensorDataset(data.test_inputs, data.test_targets))


@healthy(at_least=0.85)
def a_few_bright_pixels_by_overlap(watch: Watch, *, seed: int) -> float:
    """A tenth of the pixels are to be found; the loss is one minus the overlap, plus a cross-entropy per pixel."""
    grey = datasets.patches(seed, count=900).view(-1, 1, 8, 8) / 167.5 - 1
    smooth = functional.avg_pool2d(functional.pad(grey, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    train, test = samples.split(seed, grey, (smooth > smooth.flatten().quantile(0.9)).float())
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def overlap(shares: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        return (2 * (shares * masks).sum() + 1) / (shares.sum() + masks.sum() + 1)

    session = watch(model, optimizer)
    for _ in range(12):
        for patches, masks in DataLoader(train, batch_size=21, shuffle=True):
            maps = model(patches)
            loss = 1 - overlap(maps.sigmoid(), masks) + functional.binary_cross_entropy_with_logits(maps, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=maps, targets=masks)
            optimizer.step()
    return judged(model, test, lambda maps, masks: overlap((maps > 0).float(), masks).item())
