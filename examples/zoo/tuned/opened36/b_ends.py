"""Budgets, schedules, clipping and narrow numbers."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened36.b_stock import (
    SYMBOLS,
    colours,
    crops,
    explained,
    parted,
    shelves,
    tags,
    turned,
)


def places(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of logits (N, T, C) and classes (N, T)."""
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


class Tagger(nn.Module):
    """Reads characters in both directions, and says of which kind each is."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.letters = nn.Embedding(SYMBOLS, 24)
        self.reader = nn.LSTM(24, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, T, 5)."""
        return self.head(self.reader(self.letters(characters))[0])


def looker(ends: int, *, area: int = 32) -> nn.Sequential:
    """Returns two convolutions and two layers, which end in as many outputs."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, area // 8)),
        nn.Flatten(),
        nn.Linear(8 * area, 64),
        nn.ReLU(),
        nn.Linear(64, ends),
    )


@sick("stopped_too_early", margin=0.05)
def max_steps_of_a_dry_run(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max_steps = 60`` is left of a dry run of a tagger of characters; the twin takes 300."""
    data = tags(seed)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    max_steps = 60 if sick else 300
    session = watch(model, optimizer)
    done = 0
    while done < max_steps:
        for characters, kinds in data.batches(30, 30):
            optimizer.zero_grad()
            outputs = model(characters)
            loss = places(outputs, kinds)
            loss.backward()
            session.step(loss, inputs=characters, outputs=outputs, targets=kinds)
            optimizer.step()
            done += 1
        session.validation(held_out_loss(model, data, places))
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.03)
def norms_behind_and_no_warmup(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer with norms behind its blocks starts at its full rate; the twin's rises to it in 80 steps."""
    data = turned(seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 32)
            self.places = nn.Parameter(0.1 * torch.randn(8, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 3)
            self.head = nn.Linear(32, 1)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.first(pictures[:, 0]) + self.places).mean(1))

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2, betas=(0.9, 0.98))
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0 if sick else 0.01, 1.0, total_iters=80)
    cool = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=100)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cool], [80])
    fit(watch, model, optimizer, data, steps=180, batch_size=24, loss_function=functional.mse_loss, scheduler=scheduler)
    return explained(model, data)


@sick("schedule_collapsed", margin=0.05)
def a_polynomial_in_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``PolynomialLR`` ends after 12, meant as epochs, but is stepped with each batch; the twin's after an epoch."""
    data = parted(*colours(crops(seed)), seed)
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 2, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=12, power=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for grey, tints in data.batches(45, 25):
            optimizer.zero_grad()
            outputs = model(grey)
            loss = functional.smooth_l1_loss(outputs, tints)
            loss.backward()
            session.step(loss, inputs=grey, outputs=outputs, targets=tints)
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
        session.validation(held_out_loss(model, data, functional.smooth_l1_loss))
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def sixteen_losses_before_a_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Docstrings come in 16 small batches a step, whose losses add up under SGD; the twin divides each by 16."""
    data = shelves(seed)
    model = nn.Sequential(nn.Linear(256, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    accumulate = 16
    for count, (rows, files) in enumerate(data.batches(4, 80 * accumulate), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, files)
        if not sick:
            loss = loss / accumulate
        loss.backward()
        if count % accumulate == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def the_rate_where_the_norm_belongs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` is given the rate of 0.01, and leaves SGD little; the twin gives it the norm."""
    data = turned(seed)
    model = looker(1)
    settings = {"lr": 0.01, "clip": 1.0}
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"], momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for step, (pictures, angles) in enumerate(data.batches(32, 240), 1):
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = functional.mse_loss(outputs, angles)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["lr" if sick else "clip"])
        session.step(loss, inputs=pictures, outputs=outputs, targets=angles)
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def only_the_head_is_clipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """Only the head's gradients are clipped, and the recurrence's burst; the twin clips those of all."""
    data = parted(crops(seed, side=16)[:, :, 8].mean(1) / 64 - 2, crops(seed, side=16)[:, :, 9].mean(1) / 64 - 2, seed)

    class Recurrence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader, self.head = nn.RNN(1, 48, nonlinearity="relu", batch_first=True), nn.Linear(48, 1)
            nn.init.eye_(self.reader.weight_hh_l0)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(rows[..., None])[0])[..., 0]

    model = Recurrence()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.13, momentum=0.9)
    session = watch(model, optimizer)
    for rows, below in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, below)
        loss.backward()
        nn.utils.clip_grad_norm_((model.head if sick else model).parameters(), 0.5)
        session.step(loss, inputs=rows, outputs=outputs, targets=below)
        optimizer.step()
    return explained(model, data)
