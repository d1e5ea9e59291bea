"""Slips of notebooks and of transfer: what is frozen, made anew, left in a mode, or never moved."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared


class Net(nn.Module):
    """A backbone of two layers, and a head."""

    def __init__(self, classes: int = 10, *, width: int = 32, code: int = 12) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, code), nn.ReLU())
        self.fc = nn.Linear(code, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.backbone(x))


@sick("parameters_not_in_optimizer")
def the_cell_of_the_model_run_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model is made again after the optimizer, which still has the old one's parameters."""
    data = datasets.digits(seed)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    if sick:
        model = Net()
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


class _Rebinding(torch.optim.Optimizer):
    """Plain descent, whose new weights are perhaps bound to a local name only."""

    def __init__(self, parameters: Any, lr: float, *, in_place: bool) -> None:
        super().__init__(parameters, {"lr": lr})
        self.in_place = in_place

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Takes a step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if self.in_place:
                    weight -= group["lr"] * weight.grad
                else:
                    weight = weight - group["lr"] * weight.grad


@sick("no_update")
def weights_rebound_in_a_loop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``w = w - lr * w.grad`` in a loop over the weights changes a name, not a weight."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = _Rebinding(model.parameters(), 0.1, in_place=not sick)
    fit(watch, model, optimizer, data, steps=150, batch_size=24)
    return accuracy(model, data)


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"))
def a_warm_up_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """``step // warm_up`` is zero until the warm-up is over, which is after this training."""
    data = datasets.digits(seed)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    warm_up = 250 if sick else 40
    factor: Callable[[int], float] = (
        (lambda step: step // warm_up) if sick else (lambda step: min(1, (step + 1) / warm_up))
    )
    fit(watch, model, optimizer, data, steps=200, batch_size=48, scheduler=LambdaLR(optimizer, factor))
    return accuracy(model, data)


@sick("detached_parameters", also=("no_update",))
def the_loss_wrapped_in_a_new_tensor(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.tensor(loss.item(), requires_grad=True)`` silences an error, and cuts all parameters off."""
    data = datasets.iris(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for x, y in data.batches(16, 150):
        outputs = model(x)
        loss = functional.cross_entropy(outputs, y)
        if sick:
            loss = torch.tensor(loss.item(), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=outputs, targets=y)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters")
def a_backbone_without_its_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """The backbone is frozen as in a tutorial on transfer, but no weights were loaded into it."""
    data = datasets.digits(seed)
    model = Net(code=8)
    if sick:
        model.backbone.requires_grad_(False)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


def _normed() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before in (64, 48, 48, 48):
        layers += [nn.Linear(before, 48), nn.BatchNorm1d(48), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(48, 10))


@sick("wrong_mode")
def train_not_called_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """``eval()`` before each validation, and no ``train()`` after it: batch norm stands still."""
    data = datasets.digits(seed)
    model = _normed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for step, (x, y) in enumerate(data.batches(32, 240)):
        optimizer.zero_grad()
        outputs = model(x)
        loss = functional.cross_entropy(outputs, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=outputs, targets=y)
        optimizer.step()
        if step % 40 == 2:
            model.eval()
            with torch.no_grad(), session.validating():
                held_out = functional.cross_entropy(model(data.test_inputs), data.test_targets)
            session.validation(held_out.item())
            if not sick:
                model.train()
    return accuracy(model, data)


@sick("unshuffled_data")
def patients_sorted_by_their_outcome(watch: Watch, *, seed: int, sick: bool) -> float:
    """The table is sorted by the target, and read in this order."""
    data = datasets.diabetes(seed)
    order = data.targets[:, 0].argsort()
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=16, shuffle=not sick)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for _ in range(8):
        for x, y in loader:
            outputs = model(x)
            loss = functional.mse_loss(outputs, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=outputs, targets=y)
            optimizer.step()
    return r_squared(model, data)


def _pretrained(data: Data) -> Net:
    """Returns a net that has learnt the digits below seven."""
    model = Net(7, width=48, code=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for x, y in data.batches(64, 150):
        optimizer.zero_grad()
        functional.cross_entropy(model(x[y < 7]), y[y < 7]).backward()
        optimizer.step()
    return model


@healthy(at_least=0.75)
def a_new_head_on_a_frozen_backbone(watch: Watch, *, seed: int) -> float:
    """A pretrained backbone is frozen, and its new head has a high rate."""
    data = datasets.digits(seed)
    model = _pretrained(data)
    model.backbone.requires_grad_(False)
    model.fc = nn.Linear(24, 10)
    optimizer = torch.optim.Adam(model.fc.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_slow_backbone_and_a_fast_head(watch: Watch, *, seed: int) -> float:
    """Fine-tuning with a tenth of the head's rate for what is pretrained."""
    data = datasets.digits(seed)
    model = _pretrained(data)
    model.fc = nn.Linear(24, 10)
    groups = [{"params": model.backbone.parameters(), "lr": 1e-3}, {"params": model.fc.parameters(), "lr": 1e-2}]
    optimizer = torch.optim.AdamW(groups)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def averaged_micro_batches(watch: Watch, *, seed: int) -> float:
    """Four micro-batches for each step, whose losses are divided by four."""
    data = datasets.digits(seed)
    model = Net(width=48, code=24)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for number, (x, y) in enumerate(data.batches(16, 4 * 120), 1):
        outputs = model(x)
        loss = functional.cross_entropy(outputs, y) / 4
        loss.backward()
        if number % 4 == 0:
            session.step(loss, inputs=x, outputs=outputs, targets=y)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return accuracy(model, data)


@healthy(at_least=0.85)
def an_average_of_the_weights(watch: Watch, *, seed: int) -> float:
    """A moving average of the weights is kept beside the model, and judged."""
    data = datasets.digits(seed)
    model = Net(width=48, code=24)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for number, (x, y) in enumerate(data.batches(48, 200), 1):
        outputs = model(x)
        loss = functional.cross_entropy(outputs, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=outputs, targets=y)
        optimizer.step()
        with torch.no_grad():
            for kept, weight in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(weight, 0.05)
        if number % 40 == 0:
            session.validation(held_out_loss(average, data))
    return accuracy(average, data)


@healthy(at_least=0.85)
def taught_by_a_larger_net(watch: Watch, *, seed: int) -> float:
    """A small net learns from the softened outputs of a larger one."""
    data = datasets.digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    learning = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for x, y in data.batches(64, 150):
        learning.zero_grad()
        functional.cross_entropy(teacher(x), y).backward()
        learning.step()
    student = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=8e-3)
    session = watch(student, optimizer)
    for x, y in data.batches(64, 200):
        soft = functional.softmax(predicted(teacher, x) / 2, 1)
        outputs = student(x)
        kl = functional.kl_div(functional.log_softmax(outputs / 2, 1), soft, reduction="batchmean")
        loss = 0.5 * functional.cross_entropy(outputs, y) + 2 * kl
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=outputs, targets=y)
        optimizer.step()
    return accuracy(student, data)
