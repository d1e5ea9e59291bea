"""Rates, schedules, clipping and the pace of a training."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened52.j_stock import (
    LastState,
    flat_numerals,
    of_pair,
    rows_of_numerals,
    share_explained,
    themselves,
)


@sick("learning_rate_too_high", margin=0.1)
def a_gru_given_the_rate_of_a_perceptron(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam keeps the rate 0.2 of a script that used SGD; the twin has 0.005."""
    data = rows_of_numerals(seed)
    model = LastState(nn.GRU(8, 32, batch_first=True), 32, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=160)
    return accuracy(model, data)


@sick("learning_rate_too_low", margin=0.1)
def scaled_to_a_reference_batch_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rule of linear scaling is applied by both config and script, 0.8 becomes 0.003; once is meant."""
    data = of_pair(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    rate = 0.8 * 32 / 512
    if sick:
        rate *= 32 / 512
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, nesterov=True, momentum=0.5, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, validate_every=30)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.08)
def polynomial_decay_over_a_single_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decay is as long as the loader, and the rate 0 after one of nine epochs; the twin's is nine times as long."""
    data = of_pair(samples.lines(seed))
    scale = data.inputs.std(0) + 0.3
    loader = DataLoader(TensorDataset(data.inputs / scale, data.targets), batch_size=40, shuffle=True)
    data = datasets.Data(data.inputs / scale, data.targets, data.test_inputs / scale, data.test_targets)
    model = nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3)
    epochs = 9
    length = len(loader) if sick else len(loader) * epochs
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=length, power=0.9)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for counts, files in loader:
            outputs = model(counts)
            loss = functional.cross_entropy(outputs, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=outputs, targets=files)
            optimizer.step()
            schedule.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


class PostNorm(nn.Module):
    """Layers that are added, and normalised after the sum, as in the first transformers."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.lift, self.head = nn.Linear(64, width), nn.Linear(width, 10)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)) for _ in range(depth)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.lift(rows)
        for norm, block in zip(self.norms, self.blocks, strict=True):
            hidden = norm(hidden + block(hidden))
        return self.head(hidden)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def norms_after_sums_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen layers with norms after their sums get the full rate at once; the twin's rises over 60 steps."""
    data = flat_numerals(seed)
    model = PostNorm(32, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.2e-2, betas=(0.9, 0.98))

    def factor(step: int) -> float:
        rise = 1.0 if sick else min(1.0, (step + 1) / 60)
        return rise * 0.5 * (1 + math.cos(math.pi * min(1.0, step / 160)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=160, batch_size=32, scheduler=schedule)
    return accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low",), margin=0.2)
def a_ramp_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The ramp is ``step // 500``, which is 0 for all of the 200 steps; the twin's is ``(step + 1) / 20``."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    ramp = torch.optim.lr_scheduler.LambdaLR(
        optimizer, (lambda step: min(1, step // 500)) if sick else (lambda step: min(1.0, (step + 1) / 20))
    )
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=ramp)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def patience_that_waits_for_a_falling_accuracy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping has ``mode="min"`` and is given an accuracy, which rises; the twin's mode is ``"max"``."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.SiLU(), nn.Dropout(0.1), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.02)
    session = watch(model, optimizer)
    best, waited, sign = -math.inf, 0, -1 if sick else 1
    for step, (pixels, labels) in enumerate(data.batches(32, 280), 1):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 20 == 0:
            found = accuracy(model, data)
            session.validation(held_out_loss(model, data), metrics={"accuracy": found})
            best, waited = (sign * found, 0) if sign * found > best else (best, waited + 1)
            if waited == 3:
                break
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def sixteen_little_losses_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of sixteen batches are added and never divided by 16, as the twin's losses are."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.12, momentum=0.9)
    session = watch(model, optimizer)
    micro = data.batches(8, 16 * 70)
    for _ in range(70):
        optimizer.zero_grad()
        for _ in range(16):
            pixels, labels = next(micro)
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            (loss if sick else loss / 16).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "non_finite_forward"), margin=0.1)
def squared_errors_of_all_pixels_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's errors are summed over pixels and samples at a rate that was found for the twin's mean."""
    data = themselves(flat_numerals(seed))
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.8, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=criterion)
    return share_explained(model, data)


@sick("clipping_ineffective", also=("exploding_gradients",), margin=0.1)
def a_list_of_weights_that_was_a_generator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``parameters()`` is a generator that the optimizer empties, so that nothing is clipped; the twin makes a list."""
    data = rows_of_numerals(seed)
    data = datasets.Data(data.inputs.reshape(-1, 16, 4), data.targets, data.test_inputs.reshape(-1, 16, 4),
                         data.test_targets)  # fmt: skip
    net = nn.RNN(4, 40, nonlinearity="relu", batch_first=True)
    nn.init.eye_(net.weight_hh_l0)
    model = LastState(net, 40, 10)
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 220):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.1)
def clipped_before_they_are_unscaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to 1 while they are still scaled by 65,536; the twin unscales them first."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(48, 150):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = model(pixels)
        loss = functional.cross_entropy(outputs.float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if not sick:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)
