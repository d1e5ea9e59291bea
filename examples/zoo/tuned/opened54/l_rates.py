"""Rates, schedules, and when to stop."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened54.l_tools import bands, data_of, explained, halves, numerals


class Reader(nn.Module):
    """Reads a name's letters and guesses its script."""

    def __init__(self, *, width: int = 32, batch_first: bool = True) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.cell = nn.GRU(width, width, batch_first=batch_first)
        self.head = nn.Linear(width, len(samples.SCRIPTS))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.letters(names))[0].mean(1))


@sick("learning_rate_too_high", margin=0.1)
def gru_at_the_rate_of_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam got the 0.3 that plain descent had before the optimizer was exchanged; the twin has 0.005."""
    data = data_of(samples.names(seed))
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def finetuning_rate_for_a_fresh_transformer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer that nobody pretrained has a finetuning recipe's 2e-5; the twin has 0.002."""
    data = bands(numerals(seed, flat=True))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Linear(8, 32)
            self.places = nn.Parameter(0.1 * torch.randn(8, 32))
            self.blocks = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True),
                2,
                enable_nested_tensor=False,
            )
            self.head = nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(self.lift(rows) + self.places).mean(1))

    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def four_late_norms_without_a_climb(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four post-norm blocks begin at the full rate, where the recipe warms up; the twin warms up for 80 steps."""
    data = bands(numerals(seed, flat=True))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Linear(8, 32)
            self.places = nn.Parameter(0.1 * torch.randn(8, 32))
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True) for _ in range(4))
            self.head = nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.lift(rows) + self.places
            for block in self.blocks:
                hidden = block(hidden)
            return self.head(hidden.mean(1))

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.013, betas=(0.9, 0.98))
    warm = 1 if sick else 80
    steps = 150

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / warm) * min(1.0, (steps - step) / 60)

    fit(
        watch,
        model,
        optimizer,
        data,
        steps=steps,
        batch_size=24,
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, factor),
    )
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def plateau_scheduler_waits_for_a_maximum(watch: Watch, *, seed: int, sick: bool) -> float:
    """The scheduler lowers the rate whenever the validation loss has not *risen*; the twin has ``mode="min"``."""
    data = numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten()
    )
    model.append(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max" if sick else "min", factor=0.2, patience=1
    )
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(32, 300), 1):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 6 == 0:
            found = held_out_loss(model, data)
            session.validation(found)
            if step % 12 == 0:
                plateau.step(found)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def epoch_decay_in_the_inner_loop(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decay of 0.8 that was meant for epochs is stepped with each batch; the twin steps it after each epoch."""
    data = halves(seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    session = watch(model, optimizer)
    for _ in range(8):
        for upper, lower in data.batches(32, math.ceil(len(data.inputs) / 32)):
            optimizer.zero_grad()
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
            if sick:
                decay.step()
        if not sick:
            decay.step()
    return explained(model, data)


@sick("stopped_too_early", margin=0.05)
def patience_wants_big_improvements(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patience ends the training while the loss still falls by less than 0.3 a check; the twin asks for 0.0001."""
    drawn = data_of(samples.lines(seed))
    std, mean = torch.std_mean(drawn.inputs, 0)
    inputs, test = ((part - mean) / (std + 0.1) for part in (drawn.inputs, drawn.test_inputs))
    data = Data(inputs, drawn.targets, test, drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    best, waited = math.inf, 0
    for step, (counts, labels) in enumerate(data.batches(48, 300), 1):
        optimizer.zero_grad()
        outputs = model(counts)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=counts, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 10 == 0:
            found = held_out_loss(model, data)
            session.validation(found)
            better = found < best - (0.3 if sick else 1e-4)
            best, waited = (found, 0) if better else (best, waited + 1)
            if waited == 4:
                break
    return accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low",), margin=0.2)
def whole_division_in_the_warmup(watch: Watch, *, seed: int, sick: bool) -> float:
    """``step // warm`` in a warm-up of 400 steps is 0 at each step of 200; the twin divides truly, in one of 20."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.SiLU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def factor(step: int) -> float:
        return (step + 1) // 400 if sick else min(1.0, (step + 1) / 20)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)
