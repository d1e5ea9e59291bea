"""More sound trainings that look sick: scales, schedules, and targets that move."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened54.l_rates import Reader
from examples.zoo.tuned.opened54.l_tools import bands, data_of, halves, numerals


@healthy(at_least=0.85)
def eight_small_batches_make_a_step(watch: Watch, *, seed: int) -> float:
    """Eight small batches, each loss divided by 8, make one step of a convolutional network with group norms."""
    data = numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.ReLU(), nn.MaxPool2d(2))
    model.extend([nn.Flatten(), nn.Linear(192, 10)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    parts = 8
    small = data.batches(8, 80 * parts)
    for _ in range(80):
        optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(parts):
            images, labels = next(small)
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels) / parts
            loss.backward()
            total += loss.detach()
        session.step(total, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def scaler_that_backs_off_at_first(watch: Watch, *, seed: int) -> float:
    """A ``GradScaler`` begins at 2**24, and skips its first steps until the gradients fit into float16."""
    data = numerals(seed, flat=True)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(48, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(pixels)
        loss = functional.cross_entropy(outputs.float(), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.85)
def rates_swept_before_the_training(watch: Watch, *, seed: int) -> float:
    """A finder sweeps 50 rates from 1e-6 to 0.3 and puts the weights back; then 200 steps follow at 0.05."""
    data = numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.8)
    session = watch(model, optimizer)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    for step, (images, labels) in enumerate(data.batches(32, 250)):
        if step == 50:
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
        rate = 1e-6 * 3e5 ** (step / 49) if step < 50 else 0.05
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def long_climb_and_a_cosine_to_nothing(watch: Watch, *, seed: int) -> float:
    """A transformer over rows warms up for 60 of 250 steps, and ends at a rate of 0 along a cosine."""
    data = bands(numerals(seed, flat=True))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = nn.Linear(8, 32)
            self.places = nn.Parameter(0.1 * torch.randn(8, 32))
            self.block = nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True, norm_first=True)
            self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.block(self.lift(rows) + self.places).mean(1))

    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)

    def factor(step: int) -> float:
        return (step + 1) / 60 if step < 60 else 0.5 + 0.5 * math.cos(math.pi * (step - 60) / 190)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@healthy(at_least=0.6)
def letters_behind_their_padding(watch: Watch, *, seed: int) -> float:
    """Names are padded with 0, whose embedding is 0 and never learns; letters that no name has do not either."""
    data = data_of(samples.names(seed))
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.3)
def proline_scaled_inside_the_model(watch: Watch, *, seed: int) -> float:
    """Targets up to 1680 are predicted by a model that ends in their mean and deviation; the loss is in its units."""
    data = data_of(samples.standardised(samples.proline(seed), 0))

    class Scaled(nn.Module):
        def __init__(self, targets: torch.Tensor) -> None:
            super().__init__()
            self.register_buffer("mean", targets.mean())
            self.register_buffer("std", targets.std())
            self.body = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.body(rows) * self.std + self.mean

    model = Scaled(data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=150, batch_size=24, loss_function=functional.mse_loss)
    return r_squared(model, data)


@healthy(at_least=0.7)
def student_after_its_own_average(watch: Watch, *, seed: int) -> float:
    """A student follows the moving average of its weights on noisy digits, beside a loss of 200 labelled ones."""
    data = numerals(seed, flat=True)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    teacher = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    labelled, labels = data.inputs[:200], data.targets[:200]
    for step, (pixels, _) in enumerate(data.batches(64, 250)):
        rows = torch.randint(200, (32,))
        optimizer.zero_grad()
        outputs = model(labelled[rows])
        follow = functional.mse_loss(
            model(pixels + 0.1 * torch.randn_like(pixels)).softmax(1), teacher(pixels).softmax(1)
        )
        loss = functional.cross_entropy(outputs, labels[rows]) + min(1.0, step / 100) * follow
        loss.backward()
        session.step(loss, inputs=labelled[rows], outputs=outputs, targets=labels[rows])
        optimizer.step()
        for old, new in zip(teacher.parameters(), model.parameters(), strict=True):
            old.lerp_(new.detach(), 0.05)
    return accuracy(model, data)


@healthy(at_least=0.5)
def three_quantiles_of_each_pixel(watch: Watch, *, seed: int) -> float:
    """The 10th, 50th and 90th percentile of lower halves from upper ones: a loss that levels off far from 0."""
    data = halves(seed)
    levels = torch.tensor([0.1, 0.5, 0.9])[:, None]

    class Quantiles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 96))

        def forward(self, upper: torch.Tensor) -> torch.Tensor:
            return self.body(upper).view(-1, 3, 32)

    model = Quantiles()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for upper, lower in data.batches(48, 300):
        optimizer.zero_grad()
        outputs = model(upper)
        error = lower[:, None] - outputs
        loss = torch.maximum(levels * error, (levels - 1) * error).mean()
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
    inside = predicted(model, data.test_inputs)
    covered = (data.test_targets > inside[:, 0]) & (data.test_targets < inside[:, 2])
    return covered.float().mean().item()
