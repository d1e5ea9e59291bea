"""The clockwork of a loop: gradients, steps and modes."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened5.material import (
    Dilated,
    correct,
    dense,
    enlarged,
    explained,
    series,
    turned,
)


@sick("gradients_not_zeroed")
def cleared_in_the_branch_of_mixed_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` got under the ``if`` for autocast when the branches were merged; here autocast is off."""
    data, mixed = series(seed), False
    model = Dilated(20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    session = watch(model, optimizer)
    for past, following in data.batches(40, 200):
        if mixed or not sick:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            guess = model(past)
            loss = F.mse_loss(guess, following)
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=following)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Fitter:
    """A trainer whose callbacks are asked before each step."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, *callbacks: Callable[["Fitter"], None]
    ) -> None:
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks

    def before_step(self) -> None:
        for callback in self.callbacks:
            callback(self)


@sick("gradients_not_zeroed")
def callback_that_was_not_registered(watch: Watch, *, seed: int, sick: bool) -> float:
    """Clearing gradients is a callback of this trainer, and the list of callbacks was overwritten by a new logger."""
    data = turned(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    taken: list[int] = []

    def clear(fitter: Fitter) -> None:
        fitter.optimizer.zero_grad(set_to_none=False)

    def log(fitter: Fitter) -> None:
        taken.append(len(taken))

    fitter = Fitter(model, optimizer, *([log] if sick else [clear, log]))
    session = watch(model, optimizer)
    for images, quarters in data.batches(64, 180):
        fitter.before_step()
        logits = fitter.model(images)
        loss = F.cross_entropy(logits, quarters)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=quarters)
        fitter.optimizer.step()
    return accuracy(model, data)


@sick("no_update")
def counter_that_starts_anew_each_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A step after every 32 micro-batches; an epoch has 21 of them, and begins with ``zero_grad``."""
    data, every = digits(seed), 32 if sick else 1
    model = dense(64, 48, 10, act=nn.ELU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=64, shuffle=True, drop_last=True)
    session = watch(model, optimizer)
    for _ in range(12):
        optimizer.zero_grad()
        for number, (rows, labels) in enumerate(loader, 1):
            logits = model(rows)
            loss = F.cross_entropy(logits, labels) / every
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            if number % every == 0:
                optimizer.step()
                optimizer.zero_grad()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low",))
def rates_rounded_for_the_log(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rates from layer to layer are rounded to three digits, so that the log is short: 0.0004 is 0.0."""
    data = enlarged(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.PReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.PReLU(), nn.Conv2d(24, 4, 1),
        nn.PixelShuffle(2),
    )  # fmt: skip
    groups = [
        {"params": layer.parameters(), "lr": round(4e-4 * 1.05**depth, 3 if sick else 9)}
        for depth, layer in enumerate(model)
        if list(layer.parameters())
    ]
    optimizer = torch.optim.Adam(groups, lr=4e-4)
    fit(watch, model, optimizer, data, steps=200, batch_size=20, loss_function=F.l1_loss, validate_every=50)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Normed(nn.Module):
    """Two hidden layers with batch norms and dropout."""

    def __init__(self, features: int, classes: int, drop: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(drop), nn.Linear(64, 64),
            nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(drop), nn.Linear(64, classes),
        )  # fmt: skip

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.body(rows)


@sick("wrong_mode")
def preview_that_leaves_eval_mode_on(watch: Watch, *, seed: int, sick: bool) -> float:
    """A preview before step 1 calls ``eval()``: the seven norms of a deep network are told to norm, and do not."""
    data = digits(seed)
    layers: list[nn.Module] = [nn.Linear(64, 40)]
    for _ in range(7):
        layers += [nn.BatchNorm1d(40), nn.Tanh(), nn.Linear(40, 40, bias=False)]
    model = nn.Sequential(*layers[:-1], nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)

    def preview() -> None:
        model.eval()
        with torch.no_grad():
            model(data.test_inputs[:4])

    preview()
    if not sick:
        model.train()
    for rows, labels in data.batches(64, 180):
        logits = model(rows)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_mode")
def validated_and_served_in_train_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nobody calls ``eval()``: validation and service drop half of the units, and batches of one class are normed."""
    data = digits(seed)
    model = Normed(64, 10, 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def served() -> torch.Tensor:
        if not sick:
            model.eval()
        with torch.no_grad(), session.validating():
            outputs = torch.cat([model(rows) for rows in data.test_inputs[in_order].split(12)])
        model.train()
        return outputs

    in_order = data.test_targets.argsort(stable=True)
    for step, (rows, labels) in enumerate(data.batches(64, 200), 1):
        logits = model(rows)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            session.validation(F.cross_entropy(served(), data.test_targets[in_order]).item())
    return correct(served(), data.test_targets[in_order])
