"""Sound trainings whose loops look odd: adversaries, rewards, micro-batches, skipped steps, ranges of rates."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened31.a_parts import Strokes, Writer, centred, each, loader, of, right


@healthy(at_least=0.6)
def a_gan_of_two_measurements(watch: Watch, *, seed: int) -> float:
    """A generator and a critic of two measurements of flowers; both losses swing and neither falls for long."""
    flowers = datasets.iris(seed).inputs[:, 2:]
    maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    making = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.9))
    judging = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    made_by, judged_by = watch(maker, making), watch(critic, judging)
    judge = nn.BCEWithLogitsLoss()
    for _ in range(300):
        real = flowers[torch.randint(len(flowers), (48,))]
        noise = torch.randn(48, 4)
        verdicts = critic(torch.cat([real, maker(noise).detach()]))
        truth = torch.cat([torch.full((48, 1), 0.9), torch.zeros(48, 1)])
        judging.zero_grad()
        loss = judge(verdicts, truth)
        loss.backward()
        judged_by.step(loss, inputs=real, outputs=verdicts, targets=truth)
        judging.step()
        made = maker(noise)
        making.zero_grad()
        loss = judge(critic(made), torch.ones(48, 1))
        loss.backward()
        made_by.step(loss, inputs=noise, outputs=made)
        making.step()
    made = predicted(maker, torch.randn(500, 4))
    return 1 - (made.mean(0) - flowers.mean(0)).abs().mean().item() / 2


@healthy(at_least=0.75)
def rewards_for_the_right_digit(watch: Watch, *, seed: int) -> float:
    """A policy names a digit and is told whether it was right; REINFORCE with a baseline and a bonus of entropy."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    baseline = 0.1
    for images, labels in data.batches(128, 380):
        policy = torch.distributions.Categorical(logits=model(images))
        named = policy.sample()
        rewards = (named == labels).float()
        loss = -(policy.log_prob(named) * (rewards - baseline)).mean() - 0.01 * policy.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.37)
def micro_batches_that_are_averaged(watch: Watch, *, seed: int) -> float:
    """A writer adds the gradients of four micro-batches, each divided by four, before a step."""
    data = datasets.text(seed, length=10)
    model = Writer(40)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for index, (codes, following) in enumerate(data.batches(8, 480), 1):
        logits = model(codes)
        loss = each(logits, following) / 4
        loss.backward()
        if index % 4 == 0:
            session.step(4 * loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return right(model, data)


@healthy(at_least=0.9)
def first_steps_skipped_by_a_scaler(watch: Watch, *, seed: int) -> float:
    """A scaler in float16 starts at 2²⁴, overflows, halves itself a few times and settles."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for images, labels in data.batches(64, 250):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(images)
        loss = functional.cross_entropy(logits.float(), labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_range_of_rates_before_the_training(watch: Watch, *, seed: int) -> float:
    """A copy is trained with rates that grow up to its divergence; the model then has a tenth of the best rate."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    probe = copy.deepcopy(model)
    optimizer = torch.optim.SGD(probe.parameters(), lr=1e-3)
    lowest, best = float("inf"), 1e-3
    for step, (images, labels) in enumerate(data.batches(64, 90)):
        rate = 1e-3 * 10 ** (step / 20)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = functional.cross_entropy(probe(images), labels)
        if loss.item() < lowest:
            lowest, best = loss.item(), rate
        if loss.item() > 4 * lowest:
            break
        loss.backward()
        optimizer.step()
    optimizer = torch.optim.SGD(model.parameters(), lr=min(0.3, max(0.05, best / 10)), momentum=0.8)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.88)
def warmed_up_and_slowed_by_a_cosine(watch: Watch, *, seed: int) -> float:
    """A transformer's rate rises for 40 steps and falls to zero along a cosine, with labels smoothed by 0.1."""
    data = centred(datasets.digits(seed))
    model = Strokes()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=200, pct_start=0.2)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    session = watch(model, optimizer)
    for images, labels in data.batches(48, 200):
        optimizer.zero_grad()
        logits = model(images)
        loss = criterion(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        schedule.step()
    return accuracy(model, data)


@healthy(at_least=0.4)
def proline_in_its_unit(watch: Watch, *, seed: int) -> float:
    """Targets are from 278 to 1,680, and the model multiplies its output by their deviation and adds their mean."""
    data = of(samples.standardised(samples.proline(seed), 0))
    std, mean = torch.std_mean(data.targets)

    class Priced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
            self.register_buffer("mean", mean)
            self.register_buffer("std", std)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.net(rows) * self.std + self.mean

    model = Priced()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for _ in range(25):
        for rows, proline in loader(data, 16):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, proline)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=proline)
            optimizer.step()
    return r_squared(model, data)
