"""Sound trainings whose loops, rates, losses or numbers look odd."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened55.m_common import LastState, counted_lines, explained, flat_numerals, mlp, paired, worst


@healthy(at_least=0.75)
def guesses_rewarded_with_an_entropy_bonus(watch: Watch, *, seed: int) -> float:
    """REINFORCE with a running baseline and an entropy bonus; its loss wanders and rises."""
    data = flat_numerals(seed)
    policy = mlp(64, 64, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=4e-3)
    session = watch(policy, optimizer)
    baseline = 0.1
    for pixels, labels in data.batches(64, 250):
        outputs = policy(pixels)
        chances = torch.distributions.Categorical(logits=outputs)
        guesses = chances.sample((4,))
        rewards = (guesses == labels).float()
        loss = -((rewards - baseline) * chances.log_prob(guesses)).mean() - 0.01 * chances.entropy().mean()
        baseline += 0.05 * (rewards.mean().item() - baseline)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs)
        optimizer.step()
    return accuracy(policy, data)


@healthy(at_least=0.85)
def six_small_batches_for_one_step(watch: Watch, *, seed: int) -> float:
    """Gradients of six batches of eight digits are averaged before a step, as if it were a batch of 48."""
    data = paired(samples.numerals(seed))
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for index, (images, labels) in enumerate(data.batches(8, 6 * 100), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 6).backward()
        if index % 6 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.6)
def loss_scale_found_by_skipping(watch: Watch, *, seed: int) -> float:
    """A GradScaler begins at 2**28 and skips its first steps until the scale fits float16."""
    data = worst(seed)
    model = mlp(10, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**28)
    session = watch(model, optimizer, scaler=scaler)
    for means, worsts in data.batches(32, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(means)
            loss = functional.mse_loss(outputs.float(), worsts)
        scaler.scale(loss).backward()
        session.step(loss, inputs=means, outputs=outputs, targets=worsts)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)


@healthy(at_least=0.55)
def rate_sought_by_a_sweep_before(watch: Watch, *, seed: int) -> float:
    """A sweep raises the rate until the loss has grown; then the network begins anew with a fifth of the best."""
    data = counted_lines(seed)
    model = mlp(96, 64, 6)
    kept = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    session = watch(model, optimizer)
    best_rate, best, smooth = 1e-6, float("inf"), None
    for rows, files in data.batches(32, 100):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, files)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=files)
        optimizer.step()
        smooth = loss.item() if smooth is None else 0.8 * smooth + 0.2 * loss.item()
        if smooth < best:
            best, best_rate = smooth, optimizer.param_groups[0]["lr"]
        if smooth > 2 * best:
            break
        optimizer.param_groups[0]["lr"] *= 1.16
    model.load_state_dict(kept)
    optimizer.state.clear()
    optimizer.param_groups[0]["lr"] = min(0.05, best_rate / 5)
    for rows, files in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, files)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=files)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def rate_that_climbs_and_sinks_to_nothing(watch: Watch, *, seed: int) -> float:
    """The rate rises from nearly 0 over 40 steps, and a cosine brings it back to 0 at the very end."""
    data = flat_numerals(seed)
    data = Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    model = LastState(8, 40, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rising = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=40)
    sinking = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [rising, sinking], [40])
    fit(watch, model, optimizer, data, steps=240, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


class Restoring(nn.Module):
    """A network that standardises its inputs, and gives values in the targets' own units."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.body = mlp(10, 16, 1, activation=nn.Tanh)
        self.register_buffer("mean", data.targets.mean(0))
        self.register_buffer("std", data.targets.std(0))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns values in the targets' units."""
        return self.body(rows) * self.std + self.mean


@healthy(at_least=0.3)
def progressions_in_thousandths(watch: Watch, *, seed: int) -> float:
    """Targets are about 150,000, and the model's last act is to undo a standardisation; the loss is about 1e10."""
    raw = datasets.diabetes(seed, raw_targets=True)
    data = Data(raw.inputs, raw.targets * 1000, raw.test_inputs, raw.test_targets * 1000)
    model = Restoring(data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss, validate_every=25)
    return r_squared(model, data)


@healthy(at_least=0.6)
def pupil_of_a_teacher_at_high_temperature(watch: Watch, *, seed: int) -> float:
    """A small network learns from a teacher's soft answers at temperature 4; its loss is small from the start."""
    data = counted_lines(seed)
    teacher = nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 6))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for rows, files in data.batches(32, 150):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(rows), files).backward()
        optimizer.step()
    teacher.eval()
    pupil = mlp(96, 24, 6)
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(pupil, optimizer)
    for rows, files in data.batches(32, 250):
        with torch.no_grad():
            soft = (teacher(rows) / 4).softmax(-1)
        outputs = pupil(rows)
        told = functional.kl_div((outputs / 4).log_softmax(-1), soft, reduction="batchmean")
        loss = 16 * told + 0.2 * functional.cross_entropy(outputs, files)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=files)
        optimizer.step()
    return accuracy(pupil, data)


@healthy(at_least=0.8)
def three_quantiles_of_each_measurement(watch: Watch, *, seed: int) -> float:
    """A quantile network gives the tenth, middle and ninetieth part; the loss has a floor far above 0."""
    data = worst(seed)
    model = mlp(10, 48, 30, activation=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    levels = torch.tensor([0.1, 0.5, 0.9])[:, None]

    def pinball(outputs: torch.Tensor, worsts: torch.Tensor) -> torch.Tensor:
        off = worsts[:, None] - outputs.view(-1, 3, 10)
        return torch.maximum(levels * off, (levels - 1) * off).mean()

    fit(watch, model, optimizer, data, steps=250, batch_size=48, loss_function=pinball, validate_every=50)
    outputs = predicted(model, data.test_inputs).view(-1, 3, 10)
    inside = ((outputs[:, 0] < data.test_targets) & (data.test_targets < outputs[:, 2])).float().mean().item()
    return 1 - abs(inside - 0.8)
