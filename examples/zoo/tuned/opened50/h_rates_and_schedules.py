"""Rates, schedules and lengths that do not suit the training."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened50.h_kit import (
    NameReader,
    centred_digits,
    dense,
    learn,
    paired,
    pictures,
    reconstruction,
    striped_digits,
)


@sick("learning_rate_too_high", margin=0.15)
def adam_takes_over_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convnet is moved from SGD to Adam and keeps the rate of 0.3; the twin's is 0.002."""
    data = pictures(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(384, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 0.002)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


class TinyEncoder(nn.Module):
    """A transformer's layer over the rows of a digit, with a learned position each."""

    def __init__(self, layers: int = 1, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.places = nn.Parameter(torch.randn(8, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.leave = nn.Linear(width, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        states = self.enter(rows) + self.places
        for layer in self.layers:
            states = layer(states)
        return self.leave(states.mean(1))


@sick("learning_rate_too_low", margin=0.2)
def finetuning_rate_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small transformer is trained from scratch at the 2e-5 of BERT's fine-tuning; the twin takes 3e-3."""
    data = striped_digits(seed)
    model = TinyEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.1)
def epochs_of_steplr_counted_in_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``StepLR`` of ten epochs is stepped with each batch and ends at nothing; the twin steps it after each epoch."""
    data = reconstruction(seed)
    model = nn.Sequential(dense(64, 64, 12), nn.ReLU(), dense(12, 64, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.3)
    session = watch(model, optimizer)
    for _ in range(14):
        for batch in torch.randperm(len(data.inputs)).split(64):
            pixels = data.inputs[batch]
            outputs = model(pixels)
            loss = functional.mse_loss(outputs, pixels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
        session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("missing_warmup", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def deep_net_at_its_full_rate_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cosine begins at its full rate, which five layers without norms don't survive; the twin warms up before it."""
    data = centred_digits(seed)
    model = dense(64, 64, 64, 64, 64, 10)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=1.6 * (2 / layer.in_features) ** 0.5)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def factor(step: int) -> float:
        rising = 1.0 if sick else min(1.0, (step + 1) / 100) ** 2
        return rising * (0.5 + 0.5 * math.cos(math.pi * step / 300))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, scheduler=scheduler)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.1)
def patience_of_one_on_a_tiny_validation(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first validation that is not better by 0.3 ends the training; the twin waits for eight without any gain."""
    data = paired(samples.names(seed))
    model = NameReader(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    best, waited, patience, delta = float("inf"), 0, (1 if sick else 8), (0.3 if sick else 0.0)
    for step, (codes, scripts) in enumerate(data.batches(48, 320), 1):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, scripts)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=scripts)
        optimizer.step()
        if step % 20 == 0 and step >= 60:
            measured = held_out_loss(model, data)
            session.validation(measured)
            best, waited = (measured, 0) if measured < best - delta else (best, waited + 1)
            if waited >= patience:
                break
    return accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed"), margin=0.2)
def warmup_by_floor_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's factor is ``step // 500``, which is 0 all the time; the twin divides by 50, not by floors."""
    data = centred_digits(seed)
    model = dense(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    factor = (lambda step: min(1, (step + 1) // 500)) if sick else (lambda step: min(1.0, (step + 1) / 50))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=180, scheduler=scheduler, validate_every=45)
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def pixels_summed_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors are summed over the batch at a rate that was found for their mean; the twin divides by its size."""
    data = paired(samples.halves(seed))
    model = dense(32, 64, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def objective(upper: torch.Tensor, lower: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(upper)
        errors = (outputs - lower).square().sum()
        return errors if sick else errors / len(upper), outputs

    learn(watch, model, optimizer, data, objective, steps=300)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class RowMemory(nn.Module):
    """A recurrence of ReLUs over a digit's pixels, four at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.RNN(4, 48, nonlinearity="relu", batch_first=True), nn.Linear(48, 10)
        nn.init.orthogonal_(self.cell.weight_hh_l0, 1.25)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.cell(pixels.view(len(pixels), 16, 4))[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipping_an_exhausted_generator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``parameters()`` is kept as a generator, which is empty when the clipping gets it; the twin keeps a list."""
    data = centred_digits(seed)
    model = RowMemory()
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(48, 200):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.2)
def norm_clipped_before_it_is_unscaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped at 1 while they are still scaled by 65,536; the twin unscales them before."""
    data = centred_digits(seed)
    model = dense(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs.float(), targets)
        scaler.scale(loss).backward()
        if not sick:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)
