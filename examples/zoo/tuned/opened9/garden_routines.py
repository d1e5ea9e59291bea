"""Sound trainings with odd routines: pruning, growing batches, frozen stages, gradients written by hand."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened9.ladle_tools import (
    cooked,
    flat_numerals,
    glances,
    ladled,
    layers,
    right,
    served,
    share,
    simmered,
    wines,
)  # fmt: skip


@healthy(at_least=0.9)
def four_weights_of_five_cut_off(watch: Watch, *, seed: int) -> float:
    """Half-way, the smallest 80 % of the first layer's weights are set to zero and held there: the loss jumps."""
    train, test = flat_numerals(seed)
    model = layers(64, 96, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = simmered(optimizer, 300)
    session = watch(model, optimizer)
    kept = torch.ones_like(model[0].weight)
    for step, (x, y) in enumerate(ladled(train, 32, 300)):
        if step == 130:
            sizes = model[0].weight.detach().abs()
            kept = (sizes > sizes.flatten().quantile(0.8)).float()
        with torch.no_grad():
            model[0].weight.mul_(kept)
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        model[0].weight.grad.mul_(kept)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        model[0].weight.mul_(kept)
    return right(model, test)


@healthy(at_least=0.93)
def batches_that_grow_instead_of_a_rate_that_falls(watch: Watch, *, seed: int) -> float:
    """The rate is constant; batches grow from 16 to 64 to 256 rows."""
    train, test = samples.numerals(seed)
    model = glances()
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for size, steps in ((16, 140), (64, 60), (256, 25)):
        for x, y in ladled(train, size, steps):
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
    return right(model, test)


@healthy(at_least=0.92)
def layers_that_retire_one_by_one(watch: Watch, *, seed: int) -> float:
    """FreezeOut: the first layer is frozen after 120 steps, the second after 200, when they have learnt enough."""
    train, test = flat_numerals(seed)
    model = layers(64, 64, 48, 10)
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.02)
    schedule = simmered(optimizer, 260)
    session = watch(model, optimizer)
    for step, (x, y) in enumerate(ladled(train, 32, 260)):
        if step in (120, 200):
            model[0 if step == 120 else 2].requires_grad_(False)
        optimizer.zero_grad(set_to_none=True)
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return right(model, test)


class TwoTasks(nn.Module):
    """A body with a head for the cultivar, and one for two measurements."""

    def __init__(self) -> None:
        super().__init__()
        self.body = layers(11, 24, 24)
        self.kind, self.values = nn.Linear(24, 3), nn.Linear(24, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.body(x).tanh()
        return self.kind(code), self.values(code)


@healthy(at_least=0.7)
def gradients_that_are_projected(watch: Watch, *, seed: int) -> float:
    """PCGrad: each task's gradient loses what is against the other's, and the loop writes ``grad`` itself.

    Quality: the mean of accuracy and R².
    """
    train, test = samples.standardised(wines(seed), 0)
    model = TwoTasks()
    optimizer = optim.Adam(model.parameters(), lr=6e-3, weight_decay=1e-2)
    schedule = simmered(optimizer, 200)
    session = watch(model, optimizer)
    parameters = list(model.parameters())
    for x, y in ladled(train, 31, 200):
        kinds, values = model(x[:, :11])
        losses = (F.cross_entropy(kinds, y), F.mse_loss(values, x[:, 11:]))
        flat = []
        for loss in losses:
            grads = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
            flat.append(torch.cat([grad.flatten() for grad in grads]))
        total = torch.zeros_like(flat[0])
        for mine, theirs in ((flat[0], flat[1]), (flat[1], flat[0])):
            total += mine - (mine @ theirs).clamp(max=0) / (theirs @ theirs + 1e-12) * theirs
        start = 0
        for parameter in parameters:
            parameter.grad = total[start : start + parameter.numel()].view_as(parameter).clone()
            start += parameter.numel()
        session.step(sum(losses), inputs=x[:, :11])
        optimizer.step()
        schedule.step()
    x, y = test.tensors
    kinds, values = served(model, x[:, :11])
    return (samples.accuracy(kinds, y) + samples.explained(values, x[:, 11:])) / 2


class Stages(nn.Module):
    """A sum of small nets, each of which learns what those before it leave."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([layers(10, 8, 10, between=nn.Tanh) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([part(x) for part in self.parts]).sum(0)


@healthy(at_least=0.7)
def nets_that_learn_what_others_leave(watch: Watch, *, seed: int) -> float:
    """Boosting: three small nets are trained one after the other; those before are frozen, those after put out zero."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = Stages()
    for part in model.parts:
        nn.init.zeros_(part[2].weight)
        nn.init.zeros_(part[2].bias)
        part.requires_grad_(False)
    for part in model.parts:
        part.requires_grad_(True)
        optimizer = optim.Adam(part.parameters(), lr=2e-2, weight_decay=1e-4)
        cooked(watch, model, optimizer, ladled(train, 32, 110), F.mse_loss, steps=110)
        part.requires_grad_(False)
    return share(model, test)


@healthy(at_least=0.88)
def two_nets_that_pick_rows_for_each_other(watch: Watch, *, seed: int) -> float:
    """Co-teaching: a fifth of the labels is wrong; each net learns from the rows that the other finds easiest."""
    train, test = flat_numerals(seed)
    x_all, y_all = train.tensors
    wrong = torch.rand(len(y_all)) < 0.2
    labels = torch.where(wrong, torch.randint(10, y_all.shape), y_all)
    model = nn.ModuleList([layers(64, 48, 10), layers(64, 48, 10)])
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = simmered(optimizer, 220)
    session = watch(model, optimizer)
    for step in range(220):
        rows = torch.randint(len(x_all), (64,))
        x, y = x_all[rows], labels[rows]
        kept = 64 - int(12 * min(1.0, step / 60))
        errors = [F.cross_entropy(net(x), y, reduction="none") for net in model]
        easy = [error.detach().argsort()[:kept] for error in errors]
        loss = errors[0][easy[1]].mean() + errors[1][easy[0]].mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x)
        optimizer.step()
        schedule.step()
    return (right(model[0], test) + right(model[1], test)) / 2


@healthy(at_least=0.93)
def weights_that_look_back(watch: Watch, *, seed: int) -> float:
    """Lookahead: every five steps, weights go half of the way back to where they were five steps ago."""
    train, test = samples.numerals(seed)
    model = glances()
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    schedule = simmered(optimizer, 240)
    slow = copy.deepcopy(list(model.parameters()))
    session = watch(model, optimizer)
    for step, (x, y) in enumerate(ladled(train, 32, 240), 1):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        if step % 5 == 0:
            with torch.no_grad():
                for kept, fast in zip(slow, model.parameters(), strict=True):
                    kept.lerp_(fast, 0.5)
                    fast.copy_(kept)
    return right(model, test)
