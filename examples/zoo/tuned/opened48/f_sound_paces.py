"""Sound trainings with odd steps, rates, inputs and targets."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened48.f_kit import Gru, Words, centred, data_of, mlp


@healthy(at_least=0.85)
def eight_small_batches_for_each_step(watch: Watch, *, seed: int) -> float:
    """Gradients of eight small batches are averaged before each step."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for count, (inputs, targets) in enumerate(data.batches(8, 8 * 80), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets) / 8
        loss.backward()
        if count % 8 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def scaler_that_finds_its_scale(watch: Watch, *, seed: int) -> float:
    """A ``GradScaler`` begins far too high, and skips its first steps until float16 holds the gradients."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 64, 48, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 180):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
        loss = functional.cross_entropy(outputs.float(), targets)
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.85)
def range_test_before_the_training(watch: Watch, *, seed: int) -> float:
    """A finder raises the rate until the loss doubles, goes back to the start, and trains with a tenth of it."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    start, least, rate, searching = copy.deepcopy(model.state_dict()), math.inf, 1e-4, True
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if not searching:
            continue
        least = min(least, loss.item())
        searching = loss.item() < 2 * least and rate < 10
        rate *= 1.12
        if not searching:
            model.load_state_dict(start)
            rate /= 10
        optimizer.param_groups[0]["lr"] = rate
    return accuracy(model, data)


@healthy(at_least=0.85)
def rise_and_cosine_for_attention(watch: Watch, *, seed: int) -> float:
    """The rate of a transformer rises over 30 steps and falls to nothing along a cosine."""
    data = centred(datasets.digits(seed))
    model = Words(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def factor(step: int) -> float:
        return (step + 1) / 30 if step < 30 else 0.5 * (1 + math.cos(math.pi * (step - 30) / 170))

    fit(
        watch, model, optimizer, data, steps=200, batch_size=32,
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, factor),
    )  # fmt: skip
    return accuracy(model, data)


@healthy(at_least=0.55)
def letters_padded_to_one_length(watch: Watch, *, seed: int) -> float:
    """Names are padded with a code whose embedding is 0 and gets no gradient."""
    data = data_of(samples.names(seed, length=16))
    model = Gru(len(samples.SCRIPTS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48)
    return accuracy(model, data)


class Scaled(nn.Module):
    """Standardises its inputs, and says its targets in their own unit."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.body = mlp(12, 24, 1, activation=nn.Tanh)
        for name, values in (("inputs", data.inputs), ("targets", data.targets)):
            self.register_buffer(f"{name}_mean", values.mean(0))
            self.register_buffer(f"{name}_std", values.std(0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns targets as they were measured."""
        return self.targets_mean + self.targets_std * self.body((inputs - self.inputs_mean) / self.inputs_std)


@healthy(at_least=0.4)
def milligrams_scaled_inside_of_the_model(watch: Watch, *, seed: int) -> float:
    """Targets are in the hundreds of thousands, and the model and the loss divide by their deviation."""
    drawn = data_of(samples.proline(seed))
    data = Data(drawn.inputs, drawn.targets * 1000, drawn.test_inputs, drawn.test_targets * 1000)
    model = Scaled(data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs / model.targets_std, targets / model.targets_std)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)
