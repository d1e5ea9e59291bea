"""Sound trainings that look odd: rewards, micro-batches, scalers, finders of rates, schedules and frozen parts."""

import copy

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened37.a_common import Enlarger, coarse, explained, lenet, numerals


@healthy(at_least=0.65)
def a_policy_that_guesses_numbers(watch: Watch, *, seed: int) -> float:
    """REINFORCE learns which of ten numbers a digit is by rewards alone; its loss says nothing, and may rise."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(192, 400):
        policy = torch.distributions.Categorical(logits=model(pictures))
        actions = policy.sample()
        rewards = (actions == labels).float()
        advantage = (rewards - rewards.mean()) / (rewards.std() + 1e-3)
        loss = -(policy.log_prob(actions) * advantage).mean() - 0.02 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=policy.logits)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def room_for_eight_pictures(watch: Watch, *, seed: int) -> float:
    """A convolution has room for eight pictures, so gradients of four batches are averaged for each step."""
    data = numerals(seed)
    model = lenet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for index, (pictures, labels) in enumerate(data.batches(8, 640), 1):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 4).backward()
        if index % 4 == 0:
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_scaler_that_begins_too_high(watch: Watch, *, seed: int) -> float:
    """A ``GradScaler`` begins at 2 ** 24, and skips the first steps until gradients fit; halves are in the middle."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=100)
    session = watch(model, optimizer, scaler=scaler)
    for pictures, labels in data.batches(64, 250):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_finder_of_rates_first(watch: Watch, *, seed: int) -> float:
    """A finder raises the rate from 1e-5 to 1 over 60 steps on a copy, and the training takes a sound one."""
    data = numerals(seed)
    model = lenet()
    trial = copy.deepcopy(model)
    optimizer = torch.optim.SGD(trial.parameters(), lr=1e-5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 10 ** (5 / 60))
    fit(watch, trial, optimizer, data, steps=60, scheduler=scheduler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@healthy(at_least=0.9)
def warm_up_and_a_cosine(watch: Watch, *, seed: int) -> float:
    """The rate rises for 40 steps and falls along a cosine to 0, where the last steps change next to nothing."""
    small, large = coarse(seed)
    small, large = (small - large.mean()) / large.std(), (large - large.mean()) / large.std()
    train, test = samples.split(seed, small, large)
    data = Data(*train.tensors, *test.tensors)
    model = Enlarger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=40),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 260),
        ],
        milestones=[40],
    )
    fit(
        watch,
        model,
        optimizer,
        data,
        steps=300,
        batch_size=32,
        loss_function=functional.mse_loss,
        scheduler=scheduler,
        validate_every=50,
    )
    return explained(model, data)


@healthy(at_least=0.6)
def names_with_padding(watch: Watch, *, seed: int) -> float:
    """Names of letters are padded with 0, whose embedding gets no gradient, and packed for a GRU."""
    train, test = samples.names(seed)
    data = Data(*train.tensors, *test.tensors)

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
            self.reader = nn.GRU(24, 32, batch_first=True)
            self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(32, 8))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            lengths = (names > 0).sum(1).clamp(min=1)
            packed = nn.utils.rnn.pack_padded_sequence(
                self.letters(names), lengths, batch_first=True, enforce_sorted=False
            )
            return self.head(self.reader(packed)[1][-1])

    model = Packed()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=180, batch_size=48, validate_every=60)
    return accuracy(model, data)


@healthy(at_least=0.4)
def proline_in_its_own_units(watch: Watch, *, seed: int) -> float:
    """Targets go to 1680, and the model itself multiplies its output by their deviation and adds their mean."""
    values = torch.from_numpy(load_wine(return_X_y=True)[0]).float()
    train, test = samples.standardised(samples.split(seed, values[:, :12], values[:, 12:]), 0)
    data = Data(*train.tensors, *test.tensors)

    class Units(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
            self.register_buffer("mean", data.targets.mean())
            self.register_buffer("std", data.targets.std())

        def forward(self, wines: torch.Tensor) -> torch.Tensor:
            return self.body(wines) * self.std + self.mean

    model = Units()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def a_body_frozen_on_purpose(watch: Watch, *, seed: int) -> float:
    """Convolutions that learned other classes stay as they are, in eval mode, and a new head learns all numbers."""
    data = numerals(seed)
    body = lenet()[:-1]
    model = nn.Sequential(body, nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for pictures, labels in data.batches(64, 150):
        optimizer.zero_grad()
        functional.cross_entropy(model(pictures), (labels + 3) % 7).backward()
        optimizer.step()
    body.requires_grad_(False).eval()
    model[1] = nn.Linear(64, 10)
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step, (pictures, labels) in enumerate(data.batches(64, 200), 1):
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
