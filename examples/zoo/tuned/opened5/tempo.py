"""Rates, schedules, first steps and last ones."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened5.material import (
    VOCABULARY,
    Dilated,
    Factors,
    Speller,
    centres,
    chunks,
    correct,
    dense,
    enlarged,
    explained,
    pixels,
    scenery,
    series,
    turned,
    words,
)


class Upscaler(nn.Module):
    """Twice the resolution by a shuffle of pixels, on top of the enlarged input."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()
        )
        self.out = nn.Sequential(nn.Conv2d(width, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.out(self.features(images))


@sick("learning_rate_too_high", margin=0.2)
def multiplied_by_the_number_of_workers(watch: Watch, *, seed: int, sick: bool) -> float:
    """A launcher scales the rate by the size of its cluster, and this process is alone."""
    data, workers = enlarged(seed), 64 if sick else 1
    model = Upscaler()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3 * workers)
    session = watch(model, optimizer)
    for low, high in data.batches(32, 160):
        guess = model(low)
        loss = F.mse_loss(guess, high)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=low, outputs=guess, targets=high)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("learning_rate_too_high")
def forecast_with_a_rate_for_linear_models(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate that won a sweep of a linear autoregression went on to a dilated network."""
    data = series(seed)
    model = Dilated(24)
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.3 if sick else 0.004)
    fit(watch, model, optimizer, data, steps=200, batch_size=50, loss_function=F.smooth_l1_loss, validate_every=40)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Bag(nn.Module):
    """The mean of the words' vectors, and a classifier on it."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(VOCABULARY, width, padding_idx=0)
        self.out = dense(width, 32, 5)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(codes))


@sick("learning_rate_too_high")
def words_that_leap(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam over vectors of words, with the rate that plain descent had needed."""
    data = chunks(seed)
    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.8 if sick else 0.01)
    session = watch(model, optimizer)
    for codes, books in data.batches(40, 220):
        optimizer.zero_grad(set_to_none=True)
        logits = model(codes)
        loss = F.cross_entropy(logits, books)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=books)
        optimizer.step()
    return correct(predicted(model, data.test_inputs), data.test_targets)


@sick("learning_rate_too_low")
def ratings_at_a_rate_in_percent_of_percent(watch: Watch, *, seed: int, sick: bool) -> float:
    """The config's rate is in percent, and two functions divide by a hundred."""
    data, rate = pixels(seed), 2.0
    for _ in range(3 if sick else 1):
        rate /= 100
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    fit(watch, model, optimizer, data, steps=240, batch_size=256, loss_function=F.mse_loss, validate_every=60)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("learning_rate_too_low")
def letters_read_at_a_cautious_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate is still the one that had kept a finished model from forgetting."""
    data = words(seed)
    model = Speller()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-6 if sick else 6e-3)
    session = watch(model, optimizer)
    for step, (codes, kinds) in enumerate(data.batches(32, 240), 1):
        logits = model(codes)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
        if step % 60 == 0:
            with session.validating():
                session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("schedule_collapsed")
def milestones_in_epochs_stepped_by_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Drops after epochs 6 and 9, and the scheduler stands in the inner loop."""
    data = turned(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(384, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    drops = lr_scheduler.MultiStepLR(optimizer, [6, 9], gamma=0.03)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=64, shuffle=True)
    for _ in range(10):
        for images, quarters in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, quarters)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=quarters)
            optimizer.step()
            if sick:
                drops.step()
        if not sick:
            drops.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("schedule_collapsed")
def plateau_seen_in_the_noise_of_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate is cut whenever the loss of two batches running is no record; meant were validations."""
    data = centres(seed)
    model = dense(24, 48, 48, 3, act=nn.GELU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=1)
    session = watch(model, optimizer)
    for step, (near, colour) in enumerate(data.batches(16, 300), 1):
        optimizer.zero_grad()
        guess = model(near)
        loss = F.mse_loss(guess, colour)
        loss.backward()
        session.step(loss, inputs=near, outputs=guess, targets=colour)
        optimizer.step()
        if step % 50 == 0:
            held_out = held_out_loss(model, data, F.mse_loss)
            session.validation(held_out)
            if not sick:
                plateau.step(held_out)
        if sick:
            plateau.step(loss.item())
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Rows(nn.Module):
    """A transformer with norms behind its blocks, over the rows of a picture."""

    def __init__(self, depth: int = 5, width: int = 24) -> None:
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.places = nn.Parameter(0.3 * torch.randn(8, width))
        block = nn.TransformerEncoderLayer(width, 4, 48, dropout=0.0, activation="gelu", batch_first=True)
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.out = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.out(self.blocks(self.rows(images[:, 0]) + self.places).mean(1))


@sick("missing_warmup")
def translation_recipe_without_its_first_line(watch: Watch, *, seed: int, sick: bool) -> float:
    """``min(step ** -0.5, step * warmup ** -1.5)`` has lost its second half: the first step is the largest."""
    data = digits(seed, images=True)
    model, warmup = Rows(), 60
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)

    def noam(done: int) -> float:
        step = done + 1
        return 0.03 * (step**-0.5 if sick else min(step**-0.5, step * warmup**-1.5))

    schedule = lr_scheduler.LambdaLR(optimizer, noam)
    fit(watch, model, optimizer, data, steps=130, batch_size=24, scheduler=schedule)
    return accuracy(model, data)


@sick("stopped_too_early")
def accuracy_under_a_patience_for_losses(watch: Watch, *, seed: int, sick: bool) -> float:
    """The stopper waits for the smallest value, and is handed the accuracy, which rises."""
    data = chunks(seed)
    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    record, waited = math.inf, 0
    for step, (codes, books) in enumerate(data.batches(40, 400), 1):
        logits = model(codes)
        loss = F.cross_entropy(logits, books)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=books)
        optimizer.step()
        if step % 10 == 0:
            with session.validating():
                value, reached = held_out_loss(model, data), accuracy(model, data)
            session.validation(value, metrics={"accuracy": reached})
            watched = reached if sick else value
            waited = 0 if watched < record else waited + 1
            record = min(record, watched)
            if waited == 4:
                break
    return accuracy(model, data)


@sick("stopped_too_early")
def epochs_over_a_generator(watch: Watch, *, seed: int, sick: bool) -> float:
    """Batches come from a generator: the first of fifteen epochs uses it up, and the others are empty."""
    data = scenery(seed)
    waves = torch.randn(2, 32, generator=torch.Generator().manual_seed(seed)) * 5

    def lifted(places: torch.Tensor) -> torch.Tensor:
        return torch.cat([(places @ waves).sin(), (places @ waves).cos()], 1)

    data = Data(lifted(data.inputs), data.targets, lifted(data.test_inputs), data.test_targets)
    model = dense(64, 64, 64, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    once = ((data.inputs[rows], data.targets[rows]) for rows in torch.randperm(len(data.inputs)).split(64))
    for _ in range(15):
        again = ((data.inputs[rows], data.targets[rows]) for rows in torch.randperm(len(data.inputs)).split(64))
        for places, light in once if sick else again:
            optimizer.zero_grad()
            guess = model(places)
            loss = F.mse_loss(guess, light)
            loss.backward()
            session.step(loss, inputs=places, outputs=guess, targets=light)
            optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)
