"""Sound trainings whose routine is out of the ordinary: schedules, precisions, averages, freezing, whole batches."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


def _judge(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


def _conv(norm: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.GroupNorm(3, 12) if norm else nn.Identity(), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.GroupNorm(3, 24) if norm else nn.Identity(), nn.ReLU(), nn.Flatten(),
        nn.Linear(384, 10),
    )  # fmt: skip


@healthy(at_least=0.9)
def one_cycle_of_momentum(watch: Watch, *, seed: int) -> float:
    """A one-cycle schedule, in which rate and momentum move against each other; smoothed labels."""
    train, test = samples.numerals(seed)
    model = _conv()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.15, epochs=4, steps_per_epoch=32)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels, label_smoothing=0.1)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            schedule.step()
    return _judge(model, test)


@healthy(at_least=0.85)
def warm_restarts(watch: Watch, *, seed: int) -> float:
    """A cosine that falls to zero and starts again, twice; validation after each cycle."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Hardswish(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=32, T_mult=2)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 40, shuffle=True, drop_last=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item())
        model.train()
    return _judge(model, test)


@healthy(at_least=0.9)
def brain_floats(watch: Watch, *, seed: int) -> float:
    """Autocast to bfloat16, which needs no scaler."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(images)
                loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _judge(model, test)


@healthy(at_least=0.9)
def scaled_clipped_and_accumulated(watch: Watch, *, seed: int) -> float:
    """Float16 with a scaler whose first steps overflow, two micro-batches a step, clipping after unscaling."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(6):
        for number, (images, labels) in enumerate(DataLoader(train, 20, shuffle=True, drop_last=True), 1):
            with torch.autocast("cpu", torch.float16):
                logits = model(images)
                loss = functional.cross_entropy(logits, labels) / 2
            scaler.scale(loss).backward()
            if number % 2 == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                session.step(loss, inputs=images, outputs=logits, targets=labels)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    return _judge(model, test)


@healthy(at_least=0.9)
def stochastic_weight_averaging(watch: Watch, *, seed: int) -> float:
    """From the fourth epoch on weights are averaged, at a constant and rather high rate."""
    train, test = samples.numerals(seed)
    model = _conv()
    averaged = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    constant = SWALR(optimizer, swa_lr=0.05, anneal_epochs=1)
    session = watch(model, optimizer)
    for epoch in range(5):
        for images, labels in DataLoader(train, 48, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if epoch >= 3:
            averaged.update_parameters(model)
            constant.step()
    return _judge(averaged, test)


@healthy(at_least=0.85)
def whole_batches_by_lbfgs(watch: Watch, *, seed: int) -> float:
    """LBFGS on all rows: several forward and backward passes in each step."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=10)
    session = watch(model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        logits = model(data.inputs)
        squares = torch.stack([one.square().sum() for one in model.parameters()]).sum()
        loss = functional.cross_entropy(logits, data.targets) + 1e-3 * squares
        loss.backward()
        return loss

    for _ in range(60):
        session.step(closure(), inputs=data.inputs, targets=data.targets)
        optimizer.step(closure)
    return _judge(model, TensorDataset(data.test_inputs, data.test_targets))


class _Recomputed(nn.Module):
    """Four blocks whose activations are computed again for the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 48), nn.Linear(48, 10)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 48)) for _ in range(4)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        values = self.first(images.flatten(1))
        for block in self.blocks:
            values = values + checkpoint(block, values, use_reentrant=False)
        return self.last(values)


@healthy(at_least=0.9)
def activations_computed_again(watch: Watch, *, seed: int) -> float:
    """Gradient checkpointing: each block runs forward twice in a step."""
    train, test = samples.numerals(seed)
    model = _Recomputed()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 50, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _judge(model, test)


@healthy(at_least=0.85)
def decay_for_matrices_alone(watch: Watch, *, seed: int) -> float:
    """Weight decay in one group and none for biases and norms; a linear warm-up and a decay by 1/√t."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10)
    )
    matrices = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}])
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 5 * min((step + 1) / 30, math.sqrt(30 / (step + 1)))
    )
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            schedule.step()
    return _judge(model, test)
