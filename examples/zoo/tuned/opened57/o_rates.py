"""Rates, schedules and how long a training lasts."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened57.o_common import as_data


class Speller(nn.Module):
    """A GRU reads a name and says of which script it is."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.memory = nn.GRU(24, 48, batch_first=True)
        self.head = nn.Linear(48, len(samples.SCRIPTS))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        states, _ = self.memory(self.letters(names))
        return self.head(states.mean(1))


@sick("learning_rate_too_high", margin=0.05)
def names_spelt_in_leaps(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate of 0.3 was copied from a recipe for SGD, but the optimizer is Adam. The twin takes 0.005."""
    data = as_data(samples.names(seed))
    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 0.005)
    fit(watch, model, optimizer, data, steps=150, validate_every=30)
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.1)
def rate_of_a_finetuning_for_a_fresh_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """A fresh network is trained with the 2e-5 that suits pretrained ones. The twin takes 2e-3."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.GELU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(24 * 16, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 2e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def plateaus_of_single_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """ReduceLROnPlateau hears each batch's loss, and noise ends the training. The twin tells it validations."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(32, 300), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if sick:
            scheduler.step(loss.item())
        if step % 42 == 0:
            validation = held_out_loss(model, data)
            session.validation(validation)
            if not sick:
                scheduler.step(validation)
    return accuracy(model, data)


@sick("missing_warmup", margin=0.05)
def full_speed_before_squares_are_known(watch: Watch, *, seed: int, sick: bool) -> float:
    """RMSprop of long memory takes its full rate while its averages are near 0. The twin rises for 80 steps."""
    data = as_data(samples.numerals(seed))
    layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3, alpha=0.999)
    steps = 220

    def factor(step: int) -> float:
        rise = 1 if sick else min(1, (step + 1) / 80)
        return rise * 0.5 * (1 + math.cos(math.pi * step / steps))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=steps, scheduler=scheduler, validate_every=44)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def patience_lost_by_progress(watch: Watch, *, seed: int, sick: bool) -> float:
    """The comparison is the wrong way round, so four better validations end it all. The twin counts worse ones."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8)
    session = watch(model, optimizer)
    best, bad = float("inf"), 0
    for step, (inputs, targets) in enumerate(data.batches(64, 360), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 16 == 0:
            validation = held_out_loss(model, data)
            session.validation(validation)
            worse = validation < best if sick else validation > best
            bad = bad + 1 if worse else 0
            best = min(best, validation)
            if bad == 4:
                break
    return accuracy(model, data)


@sick("loss_sum_not_mean", margin=0.05)
def every_pixel_of_every_digit_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """All pixels' cross-entropies are summed, but the rate was chosen for a mean. The twin takes the mean."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    reduction = "sum" if sick else "mean"

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets, reduction=reduction)

    fit(watch, model, optimizer, data, steps=300, loss_function=loss_function)
    with torch.no_grad():
        return samples.explained(model(data.test_inputs).sigmoid(), data.test_targets)


@sick("accumulation_not_averaged", margin=0.05)
def sixteen_small_batches_in_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of sixteen batches add up at the rate of one. The twin divides each loss by sixteen."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(8, 960), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        (loss if sick else loss / 16).backward()
        if step % 16 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)
