"""Sound trainings whose losses, gradients or rates look odd."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened51.i_bench import as_data, brightness, code_lines, explained, mlp, scripts
from examples.zoo.tuned.opened51.i_paces import PostNorm


@healthy(at_least=0.6)
def guesser_paid_for_right_digits(watch: Watch, *, seed: int) -> float:
    """A policy is paid 1 for the right of ten actions, less a baseline and with a bonus for entropy."""
    data = datasets.digits(seed)
    model = mlp(64, 64, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for states, best in data.batches(128, 350):
        outputs = model(states)
        policy = torch.distributions.Categorical(logits=outputs)
        actions = policy.sample()
        rewards = (actions == best).float()
        advantage = rewards - rewards.mean()
        loss = -(policy.log_prob(actions) * advantage).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=outputs)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def six_micro_batches_of_lines_averaged(watch: Watch, *, seed: int) -> float:
    """Gradients of six batches of 8 are averaged before a step."""
    data = code_lines(seed)
    model = mlp(96, 48, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for index, (rows, labels) in enumerate(data.batches(8, 6 * 70), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 6).backward()
        if index % 6 == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.5)
def half_precision_with_a_scale_to_be_found(watch: Watch, *, seed: int) -> float:
    """A GradScaler begins at 2 ** 24 and skips steps until its scale fits float16."""
    data = brightness(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for series, following in data.batches(48, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(series)
        loss = functional.mse_loss(outputs.float(), following)
        scaler.scale(loss).backward()
        session.step(loss, inputs=series, outputs=outputs, targets=following)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)


@healthy(at_least=0.85)
def rates_tried_before_one_is_taken(watch: Watch, *, seed: int) -> float:
    """The rate grows from 1e-6 to 0.03 over 90 steps, then the first weights are trained at a tenth of that."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    begun = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(48, 250)):
        if step == 90:
            model.load_state_dict(begun)
            optimizer.state.clear()
        optimizer.param_groups[0]["lr"] = 1e-6 * 30_000 ** (step / 89) if step < 90 else 3e-3
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.4)
def slow_start_and_a_cosine_to_nothing(watch: Watch, *, seed: int) -> float:
    """A transformer's rate rises over 40 steps and falls to 0 as a cosine until the last one."""
    data = scripts(seed)
    model = PostNorm(2, 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=40)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 160)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [40])
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=schedule)
    return accuracy(model, data)


class InOwnUnits(nn.Module):
    """Takes and gives raw units, and is standardised within."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        for name, values in (("inputs", inputs), ("targets", targets)):
            std, mean = torch.std_mean(values, 0)
            self.register_buffer(f"{name}_mean", mean)
            self.register_buffer(f"{name}_std", std)
        self.body = mlp(12, 24, 1, activation=nn.SiLU)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.targets_mean + self.targets_std * self.body((rows - self.inputs_mean) / self.inputs_std)


@healthy(at_least=0.4)
def proline_counted_in_a_million(watch: Watch, *, seed: int) -> float:
    """Targets of a million are met by a model that knows their mean and deviation; its loss is in their units."""
    drawn = as_data(samples.proline(seed))
    data = Data(drawn.inputs, 1000 * drawn.targets, drawn.test_inputs, 1000 * drawn.test_targets)
    model = InOwnUnits(data.inputs, data.targets)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=150, batch_size=24, loss_function=functional.l1_loss)
    return explained(model, data)


@healthy(at_least=0.3)
def noise_of_any_strength_foretold(watch: Watch, *, seed: int) -> float:
    """A diffusion model tells noise of random strength from digits, so its loss jumps from batch to batch."""
    data = as_data(samples.numerals(seed))
    model = mlp(65, 128, 128, 64, activation=nn.SiLU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def blurred(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        time, noise = torch.rand(len(images), 1), torch.randn(len(images), 64)
        kept = torch.cos(time * torch.pi / 2)
        return torch.cat([kept * images.flatten(1) + (1 - kept**2).sqrt() * noise, time], 1), noise

    for images, _ in data.batches(32, 350):
        inputs, noise = blurred(images)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, noise)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=noise)
        optimizer.step()
    inputs, noise = blurred(data.test_inputs)
    return samples.explained(predicted(model, inputs), noise)
