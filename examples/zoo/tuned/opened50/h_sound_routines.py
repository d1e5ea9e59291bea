"""Sound loops: rates that sweep, steps that are skipped, losses that may rise."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened50.h_aims import prolines
from examples.zoo.tuned.opened50.h_kit import centred_digits, dense, paired, pictures, striped_digits
from examples.zoo.tuned.opened50.h_rates_and_schedules import TinyEncoder


@healthy(at_least=0.85)
def bandit_with_an_entropy_bonus(watch: Watch, *, seed: int) -> float:
    """A policy is paid for naming the tumour; its loss may rise while its reward does."""
    data = datasets.breast_cancer(seed)
    model = dense(30, 32, 2, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    usual = 0.5
    for states, best in data.batches(64, 250):
        policy = torch.distributions.Categorical(logits=model(states))
        actions = policy.sample()
        rewards = (actions == best).float()
        loss = -(policy.log_prob(actions) * (rewards - usual)).mean() - 0.01 * policy.entropy().mean()
        usual = 0.95 * usual + 0.05 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=policy.logits)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def four_small_batches_to_a_step(watch: Watch, *, seed: int) -> float:
    """Gradients of four batches of sixteen are averaged before each step."""
    data = pictures(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.GroupNorm(4, 16), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    batches = data.batches(16, 4 * 120)
    for _ in range(120):
        optimizer.zero_grad()
        for _ in range(4):
            images, labels = next(batches)
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            (loss / 4).backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def scaler_that_begins_far_too_high(watch: Watch, *, seed: int) -> float:
    """A gradient scaler begins at 2**24, and skips some steps until nothing overflows."""
    data = centred_digits(seed)
    model = dense(64, 64, 48, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(64, 200):
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
def sweep_of_rates_and_then_a_training(watch: Watch, *, seed: int) -> float:
    """A finder raises the rate until the loss bursts, then the weights are restored and trained at a tenth of it."""
    data = centred_digits(seed)
    model = dense(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    begun = copy.deepcopy(model.state_dict())
    session = watch(model, optimizer)
    least, found = math.inf, 0.0
    for step, (pixels, labels) in enumerate(data.batches(64, 300)):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        rate = optimizer.param_groups[0]["lr"]
        if not found:
            least = min(least, loss.item())
            if loss.item() > 3 * least or step == 90:
                found = rate
                model.load_state_dict(begun)
                rate = found / 10
            else:
                rate *= 1.12
            optimizer.param_groups[0]["lr"] = rate
    return accuracy(model, data)


@healthy(at_least=0.75)
def encoder_with_warmup_and_a_cosine(watch: Watch, *, seed: int) -> float:
    """A transformer's rate rises from nothing over thirty steps and falls to nothing by the last one."""
    data = striped_digits(seed)
    model = TinyEncoder(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)

    def factor(step: int) -> float:
        return (step + 1) / 30 if step < 30 else 0.5 + 0.5 * math.cos(math.pi * (step - 30) / 170)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=200, scheduler=scheduler)
    return accuracy(model, data)


class InMilligrams(nn.Module):
    """A regression whose answers are brought to the targets' mean and deviation within the model."""

    def __init__(self, targets: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", targets.mean())
        self.register_buffer("std", targets.std())
        self.layers = dense(12, 16, 1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns milligrams."""
        return self.mean + self.std * self.layers(values)


@healthy(at_least=0.35)
def prolines_through_their_own_moments(watch: Watch, *, seed: int) -> float:
    """Targets are up to 1,680, and the model ends in their mean and deviation; the loss is in units of both."""
    data = prolines(seed)
    model = InMilligrams(data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.02)
    spread = data.targets.std()

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.smooth_l1_loss(outputs / spread, targets / spread)

    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=loss_function, validate_every=25)
    return r_squared(model, data)


@healthy(at_least=0.85)
def mixtures_with_softened_labels(watch: Watch, *, seed: int) -> float:
    """Mixed images and smoothed labels keep the training loss high, while the validation's falls below it."""
    data = paired(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 48), nn.ReLU(),
        nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    shares = torch.distributions.Beta(0.4, 0.4)
    for images, labels in data.batches(64, 220):
        share, other = shares.sample(), torch.randperm(len(images))
        mixed = share * images + (1 - share) * images[other]
        likely = functional.one_hot(labels, 10).float()
        likely = share * likely + (1 - share) * likely[other]
        outputs = model(mixed)
        loss = functional.cross_entropy(outputs, likely, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=outputs, targets=likely)
        optimizer.step()
    return accuracy(model, data)
