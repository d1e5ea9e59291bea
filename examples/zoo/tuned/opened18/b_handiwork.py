"""Loops and parts made by hand: optimizers, scalers, schedules, layers that appear late, and narrow numbers."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.loops import accuracy


class _Sgd(torch.optim.Optimizer):
    """Gradient descent from a lecture; what it does to a parameter may be lost."""

    def __init__(self, parameters: object, lr: float, rebinds: bool) -> None:
        super().__init__(parameters, {"lr": lr})  # type: ignore[arg-type]
        self._rebinds = rebinds

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if self._rebinds:
                    parameter = parameter - group["lr"] * parameter.grad
                else:
                    parameter -= group["lr"] * parameter.grad


@sick("no_update", margin=0.2)
def a_name_bound_anew(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hand-made step says ``p = p - lr * p.grad``, which changes no weight; the twin's says ``p -= ...``."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = _Sgd(model.parameters(), lr=0.3, rebinds=sick)
    session = watch(model, optimizer)
    for _ in range(12):
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(outputs, labels.float())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        found, true = model(test.tensors[0])[:, 0] > 0, test.tensors[1] > 0
        return ((found[true].float().mean() + (~found[~true]).float().mean()) / 2).item()


@sick("clipping_too_strong", margin=0.1)
def clipped_before_unscaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm of gradients 65,536 times too large is clipped to 1; the twin calls ``scaler.unscale_`` before it."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(6):
        for images, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                outputs = model(images)
                loss = functional.cross_entropy(outputs, labels)
            scaler.scale(loss).backward()
            if not sick:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            scaler.step(optimizer)
            scaler.update()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("schedule_collapsed")
def a_plateau_of_a_rising_accuracy(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` waits for an accuracy to fall, and cuts the rate while it rises; the twin's mode is max."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min" if sick else "max", patience=1)
    session = watch(model, optimizer)
    for _ in range(15):
        for images, labels in DataLoader(train, 48, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        with torch.no_grad(), session.validating():
            outputs = model(test.tensors[0])
            held_out = functional.cross_entropy(outputs, test.tensors[1]).item()
        right = samples.accuracy(outputs, test.tensors[1])
        session.validation(held_out, metrics={"accuracy": right})
        schedule.step(right)
    return right


@sick("learning_rate_too_low", margin=0.1)
def a_rate_times_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """``LambdaLR``'s function returns the rate, not a factor, so that 0.001 becomes 1e-6; the twin returns factors."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    base = 1e-3
    optimizer = torch.optim.RMSprop(model.parameters(), lr=base)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (base if sick else 1.0) * 0.998**step)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 250):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        schedule.step()
    return accuracy(model, data)


@sick("gradients_not_zeroed", also=("accumulation_not_averaged",), margin=0.04)
def a_step_in_each_part_of_an_accumulation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are zeroed every sixteenth batch, but a step is taken in each; the twin zeroes after each step."""
    train, test = samples.scenes(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    step = 0
    for _ in range(6):
        for images, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            step += 1
            if not sick or step % 16 == 0:
                optimizer.zero_grad()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def two_passes_for_a_flat_minimum(watch: Watch, *, seed: int) -> float:
    """Sharpness-aware: each step goes uphill a little, takes the gradient there, and goes back before it steps."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 200):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        factor = 0.05 / torch.stack([slope.norm() for slope in slopes]).norm().clamp(min=1e-12)
        with torch.no_grad():
            for weight, slope in zip(model.parameters(), slopes, strict=True):
                weight += factor * slope
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        with torch.no_grad():
            for weight, slope in zip(model.parameters(), slopes, strict=True):
                weight -= factor * slope
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
