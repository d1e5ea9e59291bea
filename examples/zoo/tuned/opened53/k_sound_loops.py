"""Sound trainings in loops that look odd: parts of batches, scaled and skipped steps, tried rates, teachers."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened53.k_shared import from_pair


def small_convolution() -> nn.Module:
    """Returns a small convolution for digits."""
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 10)),
    )


@healthy(at_least=0.88)
def four_quarters_of_a_batch(watch: Watch, *, seed: int) -> float:
    """Four small batches, each loss divided by four, make one step."""
    data = from_pair(samples.numerals(seed))
    model = small_convolution()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for index, (images, labels) in enumerate(data.batches(16, 320), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 4).backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        if index % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.5)
def a_first_scale_that_overflows(watch: Watch, *, seed: int) -> float:
    """Half precision overflows at the scaler's first scale, so it skips some steps and halves it until it fits."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.SiLU(), nn.Linear(48, 16), nn.Linear(16, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    session = watch(model, optimizer, scaler=scaler)
    for rows, _ in data.batches(64, 220):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(rows)
        loss = functional.mse_loss(outputs.float(), rows)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@healthy(at_least=0.88)
def rates_tried_before_one_is_taken(watch: Watch, *, seed: int) -> float:
    """Rates from 0.0001 to 3 are tried until the loss doubles; then the model goes back and trains with a tenth."""
    data = from_pair(samples.numerals(seed))
    model = small_convolution()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    begun = copy.deepcopy(model.state_dict())
    session = watch(model, optimizer)
    lowest, best, rate, trying = float("inf"), 1e-4, 1e-4, True
    for images, labels in data.batches(48, 320):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if trying:
            if loss.item() < lowest:
                lowest, best = loss.item(), rate
            rate *= 1.12
            if loss.item() > 2 * lowest or rate > 3:
                trying, rate = False, best / 4
                model.load_state_dict(begun)
    return accuracy(model, data)


@healthy(at_least=0.88)
def a_ramp_and_half_a_cosine(watch: Watch, *, seed: int) -> float:
    """The rate rises from nearly nothing in 40 steps and falls to nothing along a cosine."""
    data = datasets.digits(seed)
    rows = Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    block = nn.TransformerEncoderLayer(8, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(block, nn.Flatten(), nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    ramp = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 40)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [ramp, fall], [40])
    fit(watch, model, optimizer, rows, steps=240, batch_size=48, scheduler=scheduler, validate_every=60)
    return accuracy(model, rows)


@healthy(at_least=0.5)
def proline_in_its_own_unit(watch: Watch, *, seed: int) -> float:
    """Targets go up to 1680, but the model has their mean and deviation, and the loss is relative to the latter."""
    train, test = samples.standardised(samples.proline(seed), 0)
    rows, wanted = train.tensors
    std, mean = torch.std_mean(wanted)

    class Standard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
            self.register_buffer("mean", mean)
            self.register_buffer("std", std)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.mean + self.std * self.inner(rows)

    model = Standard()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)

    def relative(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((outputs - targets) / std).square().mean()

    data = Data(rows, wanted, *test.tensors)
    fit(watch, model, optimizer, data, steps=200, batch_size=24, loss_function=relative)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.75)
def a_slow_teacher_of_a_student(watch: Watch, *, seed: int) -> float:
    """A student learns two hundred labels and agrees elsewhere with its own mean, which no optimizer has."""
    data = datasets.digits(seed)

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))

    model, teacher = network(), network().requires_grad_(False)
    teacher.load_state_dict(model.state_dict())
    teacher.eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    known = Data(data.inputs[:200], data.targets[:200], data.test_inputs, data.test_targets)
    for step, (rows, labels) in enumerate(known.batches(40, 300)):
        others = data.inputs[200:][torch.randint(len(data.inputs) - 200, (64,))]
        outputs = model(rows)
        guessed = model(others + 0.05 * torch.randn_like(others)).softmax(1)
        agreed = functional.mse_loss(guessed, teacher(others).softmax(1))
        loss = functional.cross_entropy(outputs, labels) + min(1.0, step / 100) * agreed
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for mean, now in zip(teacher.parameters(), model.parameters(), strict=True):
                mean.lerp_(now, 0.03)
    return accuracy(teacher, data)


@healthy(at_least=0.88)
def steps_from_a_sharper_place(watch: Watch, *, seed: int) -> float:
    """Sharpness-aware minimisation goes uphill first, and takes the gradient from there; labels are smoothed."""
    data = from_pair(samples.numerals(seed))
    model = small_convolution()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    parameters = list(model.parameters())
    for images, labels in data.batches(48, 200):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        length = torch.stack([one.grad.norm() for one in parameters]).norm() + 1e-8
        moves = [0.05 * one.grad / length for one in parameters]
        with torch.no_grad():
            for one, move in zip(parameters, moves, strict=True):
                one.add_(move)
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels, label_smoothing=0.1)
        loss.backward()
        with torch.no_grad():
            for one, move in zip(parameters, moves, strict=True):
                one.sub_(move)
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
