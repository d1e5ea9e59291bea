"""Sound trainings with rates and optimizers that are not the usual ones."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared


def _mlp(width: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


@healthy(at_least=0.9)
def triangles_with_momentum_against_them(watch: Watch, *, seed: int) -> float:
    """CyclicLR between 0.005 and 0.15, whose momentum goes the other way."""
    data = datasets.digits(seed)
    model = _mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    cycle = lr_scheduler.CyclicLR(optimizer, 0.005, 0.15, step_size_up=30, mode="triangular2")
    fit(watch, model, optimizer, data, steps=240, scheduler=cycle)
    return accuracy(model, data)


@healthy(at_least=0.93)
def restarts_of_a_cosine_every_fifty_batches(watch: Watch, *, seed: int) -> float:
    """Warm restarts: the rate falls to nearly zero and jumps back, four times."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    cosine = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 50, eta_min=1e-5)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            cosine.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.93)
def one_cycle_up_to_a_high_rate(watch: Watch, *, seed: int) -> float:
    """OneCycleLR up to 0.4 with batch norm: super-convergence in six epochs."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip
    loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    cycle = lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, steps_per_epoch=len(loader), epochs=6)
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        for images, labels in loader:
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            cycle.step()
        model.eval()
        with session.validating(), torch.no_grad():
            session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item())
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Lion(torch.optim.Optimizer):
    """Signs of a momentum, with decoupled weight decay."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            first, second = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                weight.mul_(1 - group["lr"] * group["decay"])
                weight.sub_(group["lr"] * (mean * first + weight.grad * (1 - first)).sign())
                mean.lerp_(weight.grad, 1 - second)


@healthy(at_least=0.9)
def lion_with_a_linear_end(watch: Watch, *, seed: int) -> float:
    """An optimizer of one's own moves each weight by its sign: updates of one size until the rate falls."""
    data = datasets.digits(seed)
    model = _mlp()
    optimizer = Lion(model.parameters(), 3e-3, (0.9, 0.99), 0.1)
    linear = lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=220)
    fit(watch, model, optimizer, data, steps=220, scheduler=linear)
    return accuracy(model, data)


@healthy(at_least=0.9)
def adafactor_without_a_momentum(watch: Watch, *, seed: int) -> float:
    """Adafactor at 0.03, which scales its steps by the size of the weights."""
    data = datasets.digits(seed)
    model = _mlp()
    fit(watch, model, torch.optim.Adafactor(model.parameters(), lr=0.03), data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.3)
def lbfgs_with_a_wolfe_search_on_all_patients(watch: Watch, *, seed: int) -> float:
    """Ridge regression by LBFGS with a closure, which has converged long before its last step."""
    data = datasets.diabetes(seed)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=4, line_search_fn="strong_wolfe")
    session = watch(model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        guess = model(data.inputs)
        loss = functional.mse_loss(guess, data.targets) + 0.01 * model.weight.square().sum()
        loss.backward()
        return loss

    for _ in range(60):
        session.step(closure(), inputs=data.inputs, outputs=model(data.inputs), targets=data.targets)
        optimizer.step(closure)
    return r_squared(model, data)


@healthy(at_least=0.9)
def all_wines_in_each_step(watch: Watch, *, seed: int) -> float:
    """Full-batch gradient descent with Nesterov's momentum: a loss without noise."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=200)
    return accuracy(model, data)


@healthy(at_least=0.9)
def eight_micro_batches_and_their_mean(watch: Watch, *, seed: int) -> float:
    """Eight batches of 16 make one step of AdamW, each with an eighth of its loss, and the norm is limited."""
    data = datasets.digits(seed)
    model = _mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for index, (pixels, labels) in enumerate(data.batches(16, 1200), 1):
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels)
        (loss / 8).backward()
        if index % 8 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return accuracy(model, data)


@healthy(at_least=0.55)
def rates_halved_when_the_validation_stands_still(watch: Watch, *, seed: int) -> float:
    """ReduceLROnPlateau on a validation's loss, of proline, with a patience of four looks."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=4)
    session = watch(model, optimizer)
    for _ in range(30):
        for features, amount in DataLoader(train, batch_size=25, shuffle=True):
            guess = model(features)
            loss = functional.mse_loss(guess, amount)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features, outputs=guess, targets=amount)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            judged = functional.mse_loss(model(test.tensors[0]), test.tensors[1])
        session.validation(judged.item())
        plateau.step(judged)
        model.train()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])
