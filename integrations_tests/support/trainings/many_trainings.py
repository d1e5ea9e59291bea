"""Short trainings of usual and unusual shape, each told by its function's name; an observer may look on."""

import copy
from collections.abc import Callable

import torch
from composed_models import Checkpointed, Headed, Recurrent, Transformer
from everything_on import Nobody
from torch import nn
from torch.nn.functional import mse_loss

STEPS = 6
TRAININGS: dict[str, Callable[[Nobody], None]] = {}


def training(function: Callable[[Nobody], None]) -> Callable[[Nobody], None]:
    """Enters a training."""
    TRAININGS[function.__name__] = function
    return function


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of 16 rows of 6, and targets of (16, 1)."""
    inputs = torch.randn(16, 6)
    return inputs, inputs.sum(1, keepdim=True)


def mlp() -> nn.Module:
    """With batch norm and dropout."""
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))


def plain() -> nn.Module:
    """Without state and chance."""
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))


def sgd(model: nn.Module, lr: float = 0.02) -> torch.optim.Optimizer:
    """With momentum, so that there is a state."""
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def usual(observer: Nobody, model: nn.Module, *, autocast: bool = False) -> None:
    """The usual loop."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs, targets = data()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = mse_loss(model(inputs).float(), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def multilayer_perceptron(observer):
    usual(observer, mlp())


@training
def convolutions(observer):
    usual(
        observer,
        nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(8, 1)),
    )


@training
def recurrent(observer):
    usual(observer, Headed(Recurrent()))


@training
def transformer(observer):
    usual(observer, Headed(Transformer()))


@training
def bfloat16_autocast(observer):
    usual(observer, mlp(), autocast=True)


@training
def activation_checkpointing(observer):
    usual(observer, Headed(Checkpointed()))


@training
def scaled_accumulated_and_clipped(observer):
    model = mlp()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=256.0)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(2):
            inputs, targets = data()
            loss = mse_loss(model(inputs), targets) / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def closure(observer):
    model = plain()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs, targets = data()

        def compute(inputs=inputs, targets=targets):
            optimizer.zero_grad()
            loss = mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        observer.between(optimizer.step(compute), inputs, targets)
    observer.end()


@training
def moving_average(observer):
    model = mlp()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    average = copy.deepcopy(model)
    swa = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(STEPS):
        inputs, targets = data()
        optimizer.zero_grad()
        loss = mse_loss(model(inputs), targets) + 0.1 * mse_loss(model(inputs), average(inputs).detach())
        loss.backward()
        optimizer.step()
        swa.update_parameters(model)
        with torch.no_grad():
            for mine, its in zip(average.parameters(), model.parameters(), strict=True):
                mine.lerp_(its, 0.1)
        observer.between([loss, *average.parameters(), *swa.parameters()], inputs, targets)
    observer.end()


@training
def retained_graph(observer):
    model = mlp()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs, targets = data()
        optimizer.zero_grad()
        outputs = model(inputs)
        one, other = mse_loss(outputs, targets), outputs.abs().mean()
        one.backward(retain_graph=True)
        other.backward()
        optimizer.step()
        observer.between(one, inputs, targets)
    observer.end()


@training
def gradient_penalty(observer):
    model = plain()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs, targets = data()
        inputs.requires_grad_()
        optimizer.zero_grad()
        outputs = model(inputs)
        (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        loss = mse_loss(outputs, targets) + 0.1 * (slope.norm(dim=1) - 1).square().mean()
        loss.backward()
        optimizer.step()
        observer.between(loss, inputs.detach(), targets)
    observer.end()


@training
def truncated_time(observer):
    cells, head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 1)
    model = nn.ModuleDict({"cells": cells, "head": head})
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    state = None
    for _ in range(STEPS):
        inputs = torch.randn(4, 5, 6)
        optimizer.zero_grad()
        outputs, state = cells(inputs, state)
        state = tuple(part.detach() for part in state)
        loss = mse_loss(head(outputs), inputs.sum(2, keepdim=True))
        loss.backward()
        optimizer.step()
        Nobody.between(observer, loss, inputs)
    observer.end()


class Adapted(nn.Module):
    """A frozen linear layer and a product of two small matrices."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, inner.in_features) * 0.1)
        self.up = nn.Parameter(torch.zeros(inner.out_features, 2))

    def forward(self, inputs):
        return self.inner(inputs) + inputs @ self.down.T @ self.up.T


@training
def adapters_added_later(observer):
    model = plain()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for number in range(STEPS):
        if number == 3:
            model[0] = Adapted(model[0])
            optimizer.add_param_group({"params": [model[0].down, model[0].up]})
        inputs, targets = data()
        optimizer.zero_grad()
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def step_in_backward(observer):
    model = plain()
    own = {parameter: torch.optim.SGD([parameter], lr=0.02) for parameter in model.parameters()}

    def update(parameter):
        own[parameter].step()
        own[parameter].zero_grad()

    handles = [parameter.register_post_accumulate_grad_hook(update) for parameter in model.parameters()]
    observer.begin(model, next(iter(own.values())))
    for _ in range(STEPS):
        inputs, targets = data()
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        observer.between(loss, inputs, targets)
    observer.end()
    for handle in handles:
        handle.remove()


@training
def adversaries(observer):
    maker, judge = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6)), mlp()
    of_maker, of_judge = sgd(maker), sgd(judge)
    observer.begin(judge, of_judge)
    for _ in range(STEPS):
        inputs, targets = data()
        made = maker(torch.randn(16, 3))
        of_judge.zero_grad()
        judged = mse_loss(judge(inputs), targets) + judge(made.detach()).square().mean()
        judged.backward()
        of_judge.step()
        of_maker.zero_grad()
        fooled = -judge(made).mean()
        fooled.backward()
        of_maker.step()
        observer.between([judged, fooled, *maker.parameters()], inputs, targets)
    observer.end()


@training
def changing_layers(observer):
    model = plain()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for number in range(STEPS):
        if number == 2:
            model.insert(2, nn.Linear(16, 16))
            optimizer.add_param_group({"params": list(model[2].parameters())})
        if number == 4:
            del model[2]
        inputs, targets = data()
        optimizer.zero_grad()
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()
