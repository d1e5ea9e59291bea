"""Sound trainings whose loops, rates or parameters look odd."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened47.e_kit import loop, numerals, paired, themselves


class Experts(nn.Module):
    """The best one of some experts for each sample, weighted by its gate."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(64, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(count)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns logits; experts that no sample chose are not called."""
        weights, chosen = self.gate(inputs).softmax(1).topk(1)
        outputs = inputs.new_zeros(len(inputs), 10)
        for index, expert in enumerate(self.experts):
            rows = (chosen[:, 0] == index).nonzero()[:, 0]
            if len(rows):
                outputs = outputs.index_add(0, rows, weights[rows] * expert(inputs[rows]))
        return outputs


@healthy(at_least=0.85)
def top_one_of_eight_experts(watch: Watch, *, seed: int) -> float:
    """Small batches do not reach all of eight experts, whose gradients are missing then."""
    data = numerals(seed, 64)
    model = Experts(8)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=300, batch_size=24)
    return accuracy(model, data)


@healthy(at_least=0.85)
def head_on_a_trained_backbone(watch: Watch, *, seed: int) -> float:
    """A backbone that has learned even and odd digits is frozen in eval mode, and a head learns which they are."""
    data = numerals(seed, 1, 8, 8)
    backbone = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.Flatten())  # fmt: skip
    parity = nn.Linear(512, 2)
    before = torch.optim.Adam([*backbone.parameters(), *parity.parameters()], lr=2e-3)
    for inputs, labels in data.batches(64, 60):
        before.zero_grad()
        functional.cross_entropy(parity(backbone(inputs)), labels % 2).backward()
        before.step()
    backbone.requires_grad_(False).eval()
    head = nn.Linear(512, 10)
    model = nn.Sequential(backbone, head)
    optimizer = torch.optim.Adam(head.parameters(), lr=2e-3)

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(inputs)
        return functional.cross_entropy(outputs, labels), outputs

    loop(watch, model, optimizer, data, step, steps=150)
    return accuracy(model, data)


class Player(nn.Module):
    """A policy and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, 10), nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the policy's logits."""
        return self.policy(self.body(inputs))


@healthy(at_least=0.8)
def actor_with_a_value_baseline(watch: Watch, *, seed: int) -> float:
    """An actor is paid for each digit that it names, with a value as baseline; the loss may rise meanwhile."""
    data = numerals(seed, 64)
    model = Player()

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = model.body(inputs)
        logits, value = model.policy(hidden), model.value(hidden).squeeze(1)
        policy = torch.distributions.Categorical(logits=logits)
        actions = policy.sample()
        rewards = (actions == labels).float()
        gain = policy.log_prob(actions) * (rewards - value.detach())
        return (0.5 * (value - rewards).square() - gain - 0.003 * policy.entropy()).mean(), logits

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, step, steps=350, size=128)
    return accuracy(model, data)


@healthy(at_least=0.85)
def eight_micro_batches_averaged(watch: Watch, *, seed: int) -> float:
    """Eight micro-batches are averaged for each update."""
    data = numerals(seed, 1, 8, 8)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.GELU(), nn.Conv2d(16, 16, 3), nn.GELU(), nn.Flatten(),
                          nn.Linear(256, 10))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for count, (inputs, labels) in enumerate(data.batches(8, 8 * 90), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 8).backward()
        if count % 8 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.25)
def first_steps_too_large_for_half(watch: Watch, *, seed: int) -> float:
    """A gradient scaler begins so high that its first steps overflow and are skipped, as it is meant to."""
    data = paired(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(inputs)
        loss = functional.mse_loss(outputs.float(), targets)
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def finder_of_rates_and_then_a_training(watch: Watch, *, seed: int) -> float:
    """Rates from 1e-5 rise until the loss does, weights are restored, and the training takes a tenth of the last."""
    data = numerals(seed, 64)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    session = watch(model, optimizer)
    lowest, searching = float("inf"), True
    for inputs, labels in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if searching:
            rate = optimizer.param_groups[0]["lr"]
            lowest = min(lowest, loss.item())
            searching = loss.item() < 2 * lowest and rate < 2.0
            if not searching:
                model.load_state_dict(kept[0])
                optimizer.load_state_dict(kept[1])
            optimizer.param_groups[0]["lr"] = rate * 1.15 if searching else rate / 10
    return accuracy(model, data)


@healthy(at_least=0.85)
def rise_and_cosine_of_an_encoder(watch: Watch, *, seed: int) -> float:
    """A pre-norm encoder of rows warms up in 30 steps from almost 0, and ends with a cosine at almost 0."""
    data = numerals(seed, 8, 8)
    block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.TransformerEncoder(block, 2, enable_nested_tensor=False),
                          nn.LayerNorm(32), nn.Flatten(), nn.Linear(256, 10))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=30)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 110)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [30])
    fit(watch, model, optimizer, data, steps=140, batch_size=32, scheduler=scheduler, validate_every=35)
    return accuracy(model, data)


class Rescaled(nn.Module):
    """A network that knows its inputs' and targets' means and deviations."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        for name, values in (("inner", inputs), ("outer", targets)):
            self.register_buffer(f"{name}_mean", values.mean(0))
            self.register_buffer(f"{name}_std", values.std(0))
        self.body = nn.Sequential(nn.Linear(inputs.shape[1], 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the targets in their own unit."""
        return self.body((inputs - self.inner_mean) / self.inner_std) * self.outer_std + self.outer_mean


@healthy(at_least=0.4)
def proline_of_a_million(watch: Watch, *, seed: int) -> float:
    """Targets of a million are no matter, for the model standardises what goes in and out, and the loss too."""
    wines = paired(samples.proline(seed))
    data = Data(wines.inputs, wines.targets * 1000, wines.test_inputs, wines.test_targets * 1000)
    model = Rescaled(data.inputs, data.targets)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(inputs)
        return functional.huber_loss(outputs / model.outer_std, targets / model.outer_std), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, step, steps=200, size=32)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.7)
def restarts_of_a_cosine(watch: Watch, *, seed: int) -> float:
    """Three cosines fall to almost 0 and start again, where the loss jumps for a while."""
    data = themselves(numerals(seed, 64))
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 20), nn.GELU(), nn.Linear(20, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 100, eta_min=1e-5)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(64, 300), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        scheduler.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(predicted(model, data.test_inputs), data.test_targets)
