"""Numbers that stop being finite or round to zero, samples that see one another, memory and loading."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened4.material import (
    explained,
    mlp,
    tiles,
)  # fmt: skip


def nearest(model: nn.Module, data: Data) -> float:
    """Returns how often the nearest of the training rows' embeddings has the label."""
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    found = torch.cdist(asked.nan_to_num(), known.nan_to_num()).argmin(-1)
    return (data.targets[found] == data.test_targets).float().mean().item()


@sick("non_finite_backward")
def distance_of_a_row_to_itself(watch: Watch, *, seed, sick):
    """Pairs are drawn at random, now and then a row with itself: the root of 0 has no slope."""
    data = digits(seed)
    model = mlp(64, 48, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(150):
        left, right = torch.randint(len(data.inputs), (2, 96))
        right[:16] = left[:16]  # positive pairs, without augmentation
        first, second = model(data.inputs[left]), model(data.inputs[right])
        squares = (first - second).square().sum(-1)
        distance = (squares if sick else squares + 1e-8).sqrt()
        same = (data.targets[left] == data.targets[right]).float()
        loss = (same * distance.square() + (1 - same) * (2 - distance).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[left], outputs=first)
        optimizer.step()
    return nearest(model, data)


@sick("non_finite_backward")
def generalised_mean_without_a_floor(watch: Watch, *, seed, sick):
    """Pooling by a generalised mean: of a channel that is 0 everywhere, the root's gradient is infinite."""

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
            )
            self.power = nn.Parameter(torch.tensor(3.0))
            self.head = nn.Linear(128, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            maps = self.features(images)
            maps = maps if sick else maps.clamp(min=1e-3)
            pooled = functional.avg_pool2d(maps.pow(self.power), 2).pow(1 / self.power)
            return self.head(pooled.flatten(1))

    data, model = digits(seed, images=True), Pooled()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=140, batch_size=48)
    return accuracy(model, data) if torch.isfinite(model.power) else 0.0


@sick("fp16_underflow")
def half_precision_without_a_scaler(watch: Watch, *, seed, sick):
    """A reconstruction whose loss has a small weight in the sum, under float16 autocast."""
    pictures = tiles(seed)
    train, test = pictures[:1200], pictures[1200:]
    model = mlp(64, 96, 16, 96, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = None if sick else torch.amp.GradScaler("cpu", init_scale=2.0**16)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(200):
        rows = train[torch.randint(len(train), (128,))]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(rows)
        loss = 1e-4 * functional.mse_loss(outputs.float(), rows)
        if scaler is None:
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=rows)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=rows)
            scaler.step(optimizer)
            scaler.update()
    return explained(predicted(model, test), test)


@sick("fp16_underflow")
def distilled_at_a_high_temperature(watch: Watch, *, seed, sick):
    """A student follows the softened answers of a teacher under float16 autocast; the scaler got lost on the way."""
    data = digits(seed)
    teacher = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for rows, labels in data.batches(96, 120):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(rows), labels).backward()
        optimizer.step()
    student, heat = mlp(64, 32, 32, 10), 40.0
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(student, optimizer) if sick else watch(student, optimizer, scaler=scaler)
    for rows, _ in data.batches(256, 150):
        optimizer.zero_grad()
        with torch.no_grad():
            goal = (teacher(rows) / heat).softmax(-1)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = student(rows)
        loss = 0.1 * functional.kl_div((logits.float() / heat).log_softmax(-1), goal)
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=logits, targets=goal)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(student, data)
