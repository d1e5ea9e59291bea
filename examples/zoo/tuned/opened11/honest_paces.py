"""Sound trainings at unusual paces: rates, momenta, batches, and optimizers of one's own."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, binary_accuracy, fit, r_squared


def _mlp(inputs: int = 64, hidden: int = 48, outputs: int = 10) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


@healthy(at_least=0.85)
def one_cycle_to_a_high_rate(watch: Watch, *, seed: int) -> float:
    """The rate rises to 0.5, momentum falls meanwhile, and at the end the rate is next to nothing."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(192, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.95)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=160)
    fit(watch, model, optimizer, data, steps=160, scheduler=scheduler, validate_every=40)
    return accuracy(model, data)


@healthy(at_least=0.8)
def warm_restarts(watch: Watch, *, seed: int) -> float:
    """The rate falls to zero three times, and each restart makes the loss worse for a while."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), *_mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3 * len(loader))
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in loader:
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.8)
def momentum_of_99_percent(watch: Watch, *, seed: int) -> float:
    """A small rate and a long memory: the loss swings slowly on its way down."""
    data = datasets.digits(seed)
    model = _mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=4e-3, momentum=0.99)
    fit(watch, model, optimizer, data, steps=300)
    return accuracy(model, data)


@healthy(at_least=0.9)
def all_rows_in_a_batch(watch: Watch, *, seed: int) -> float:
    """Each step sees all 426 tumours."""
    data = datasets.breast_cancer(seed)
    model = _mlp(30, 16, 1)
    optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(90):
        optimizer.zero_grad()
        logits = model(data.inputs).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(logits, data.targets.float())
        loss.backward()
        session.step(loss, inputs=data.inputs, outputs=logits, targets=data.targets)
        optimizer.step()
    return binary_accuracy(model, data)


@healthy(at_least=0.85)
def one_wine_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of one row, sixteen of which make a step, each with a sixteenth of its loss."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.LayerNorm(24), nn.SiLU(), nn.Linear(24, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    session = watch(model, optimizer)
    for number, (row, kind) in enumerate(data.batches(1, 16 * 80), 1):
        scores = model(row)
        loss = functional.cross_entropy(scores, kind) / 16
        loss.backward()
        if number % 16 == 0:
            session.step(loss * 16, inputs=row, outputs=scores, targets=kind)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.35)
def quasi_newton_with_a_closure(watch: Watch, *, seed: int) -> float:
    """LBFGS, whose closure runs the model many times in a step, on all patients and with some decay."""
    data = datasets.diabetes(seed)
    model = _mlp(10, 8, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=2, history_size=10)
    session = watch(model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        decay = sum(parameter.square().sum() for parameter in model.parameters())
        loss = functional.mse_loss(model(data.inputs), data.targets) + 0.02 * decay
        loss.backward()
        return loss

    for _ in range(60):
        session.step(inputs=data.inputs, targets=data.targets)
        optimizer.step(closure)
    return r_squared(model, data)


@healthy(at_least=0.6)
def resilient_propagation(watch: Watch, *, seed: int) -> float:
    """Rprop looks at signs alone; each weight has a step size of its own, and all rows are in each batch."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = _mlp(10, 16, 10)
    optimizer = torch.optim.Rprop(model.parameters(), lr=1e-3, step_sizes=(1e-6, 0.05))
    session = watch(model, optimizer)
    rows, wanted = train.tensors
    for _ in range(100):
        optimizer.zero_grad()
        guessed = model(rows)
        loss = functional.mse_loss(guessed, wanted)
        loss.backward()
        session.step(loss, inputs=rows, outputs=guessed, targets=wanted)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class Signs(torch.optim.Optimizer):
    """Lion: steps by the sign of a momentum, and decays the weights."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float, decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                memory = self.state[weight].setdefault("memory", torch.zeros_like(weight))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(memory.lerp(weight.grad, 0.1).sign(), alpha=-group["lr"])
                memory.lerp_(weight.grad, 0.01)
        return None


@healthy(at_least=0.85)
def steps_by_signs(watch: Watch, *, seed: int) -> float:
    """An optimizer of one's own changes every weight by the same amount."""
    data = datasets.digits(seed)
    model = _mlp()
    optimizer = Signs(model.parameters(), lr=1e-3, decay=0.1)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def sharpness_aware_steps(watch: Watch, *, seed: int) -> float:
    """SAM: weights climb a little, gradients are taken there, and the step starts from where they were."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    weights: list[Any] = list(model.parameters())
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 120):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        with torch.no_grad():
            norm = torch.stack([weight.grad.norm() for weight in weights]).norm() + 1e-12
            climbed = [0.05 * weight.grad / norm for weight in weights]
            for weight, change in zip(weights, climbed, strict=True):
                weight.add_(change)
        optimizer.zero_grad()
        scores = model(images)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        with torch.no_grad():
            for weight, change in zip(weights, climbed, strict=True):
                weight.sub_(change)
        session.step(loss, inputs=images, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)
