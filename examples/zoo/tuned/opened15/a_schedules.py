"""Schedules of the rate, and ends of trainings, that come at the wrong time."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, held_out_loss


@sick("schedule_collapsed")
def a_plateau_that_waits_for_a_higher_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` was told "max" but is given a loss: it lowers the rate because training goes well."""
    train, test = samples.lines(seed)
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max" if sick else "min", patience=1)
    session = watch(model, optimizer)
    for _ in range(14):
        for counts, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(counts)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=labels)
            optimizer.step()
        with torch.no_grad():
            reached = functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item()
        session.validation(reached)
        scheduler.step(reached)
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("schedule_collapsed", also=("no_update", "learning_rate_too_low"))
def a_cosine_made_anew_in_each_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each epoch makes a cosine schedule, which begins where the last one ended: at zero; the twin makes one."""
    train, test = samples.names(seed)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 20), nn.Flatten(), nn.Linear(480, 48), nn.ReLU())
    model.append(nn.Linear(48, len(samples.SCRIPTS)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = DataLoader(train, batch_size=48, shuffle=True)
    session, epochs = watch(model, optimizer), 14
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for _ in range(epochs):
        if sick:
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(loader))
        for names, labels in loader:
            logits = model(names)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("stopped_too_early")
def patience_that_counts_improvements(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping counts the validations that were better, not those that were worse, and ends a good training."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session, best, waited = watch(model, optimizer), float("inf"), 0
    for step, (images, labels) in enumerate(data.batches(48, 300), 1):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        if step % 15 == 0:
            reached = held_out_loss(model, data)
            session.validation(reached)
            better = reached < best
            best = min(best, reached)
            waited = waited + 1 if better == sick else 0
            if waited == 4:
                break
    return accuracy(model, data)


class _Residual(nn.Module):
    """Adds to its input what two layers make of it; nothing normalises."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        for layer in (self.first, self.second):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.second(functional.relu(self.first(values)))


@sick("missing_warmup", also=("learning_rate_too_high", "exploding_gradients"))
def residual_blocks_at_their_full_rate_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rate that a residual net bears later on destroys it in its first steps; the twin warms up for 100 steps."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), *[_Residual(48) for _ in range(4)], nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    steps, warm = 260, 1 if sick else 100
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm) * (1 - step / steps)
    )
    session = watch(model, optimizer)
    for images, labels in data.batches(64, steps):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@sick("stopped_too_early")
def a_handful_of_steps_of_the_planned_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """The number of steps was worked out for a batch four times as large: 75 of 300 are made."""
    data = datasets.text(seed, length=14)
    embed, cell = nn.Embedding(datasets.CHARACTERS, 32), nn.LSTM(32, 64, batch_first=True)
    head = nn.Linear(64, datasets.CHARACTERS)
    model = nn.ModuleList([embed, cell, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 75 if sick else 300):
        logits = head(cell(embed(codes))[0]).flatten(0, 1)
        loss = functional.cross_entropy(logits, following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following.flatten())
        optimizer.step()
    with torch.no_grad():
        found = head(cell(embed(data.test_inputs))[0]).argmax(-1)
    return (found == data.test_targets).float().mean().item()
