"""Sound trainings by other optimizers, at rates that look odd and are right for them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss, r_squared

from . import material
from .material import descend


@healthy(at_least=0.85)
def adadelta_at_one(watch: Watch, *, seed: int) -> float:
    """Adadelta's own rate of 1, on wines."""
    data = datasets.wine(seed)
    net = material.mlp(13, 24, 3)
    fit(watch, net, torch.optim.Adadelta(net.parameters(), lr=1.0), data, steps=200, batch_size=24)
    return accuracy(net, data)


@healthy(at_least=0.9)
def rprop_on_all_rows(watch: Watch, *, seed: int) -> float:
    """Rprop looks at signs only, on all rows at once: the steps of single weights grow and shrink."""
    data = datasets.breast_cancer(seed)
    net = material.mlp(30, 8, 2, act=nn.Tanh)
    optimizer = torch.optim.Rprop(net.parameters(), lr=2e-3, step_sizes=(1e-6, 0.05))
    session = watch(net, optimizer)
    for _ in range(60):
        out = net(data.inputs)
        loss = F.cross_entropy(out, data.targets) + 1e-3 * sum(one.square().sum() for one in net.parameters())
        descend(session, optimizer, loss, inputs=data.inputs, outputs=out, targets=data.targets)
    return accuracy(net, data)


@healthy(at_least=0.85)
def adagrad_at_a_twentieth(watch: Watch, *, seed: int) -> float:
    """Adagrad at 0.05, whose steps shrink by themselves."""
    data = datasets.digits(seed)
    net = material.mlp(64, 40, 10)
    fit(watch, net, torch.optim.Adagrad(net.parameters(), lr=0.05), data, steps=240, batch_size=48)
    return accuracy(net, data)


@healthy(at_least=0.9)
def a_rate_of_a_half_for_a_linear_model(watch: Watch, *, seed: int) -> float:
    """Plain SGD at a rate of 0.5: inputs are pixels between 0 and 1, mostly dark, and the model is linear."""
    data = datasets.digits(seed)
    net = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    fit(watch, net, optimizer, data, steps=260, batch_size=128)
    return accuracy(net, data)


@healthy(at_least=0.85)
def signs_of_momentum(watch: Watch, *, seed: int) -> float:
    """Lion by hand, as an optimizer class of one's own: each step has the same size, at a rate of 1e-3."""

    class Lion(torch.optim.Optimizer):
        def __init__(self, parameters: object, lr: float) -> None:
            super().__init__(parameters, {"lr": lr})  # type: ignore[arg-type]

        @torch.no_grad()
        def step(self, closure: object = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for one in group["params"]:
                    mean = self.state[one].setdefault("mean", torch.zeros_like(one))
                    one.sub_((0.9 * mean + 0.1 * one.grad).sign(), alpha=group["lr"])
                    mean.lerp_(one.grad, 0.01)

    data = datasets.digits(seed)
    net = material.mlp(64, 48, 10, act=nn.GELU)
    optimizer = Lion(net.parameters(), lr=2e-3)
    schedule = lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=220)
    fit(watch, net, optimizer, data, steps=220, batch_size=64, scheduler=schedule)
    return accuracy(net, data)


@healthy(at_least=0.85)
def sharpness_is_looked_at_twice(watch: Watch, *, seed: int) -> float:
    """SAM: two backward passes a step, weights are moved up and put back in between."""
    data = datasets.digits(seed)
    net = material.mlp(64, 32, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 180):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        norm = torch.stack([one.grad.norm() for one in net.parameters()]).norm() + 1e-12
        moves = [0.05 * one.grad / norm for one in net.parameters()]
        with torch.no_grad():
            for one, move in zip(net.parameters(), moves, strict=True):
                one.add_(move)
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        with torch.no_grad():
            for one, move in zip(net.parameters(), moves, strict=True):
                one.sub_(move)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@healthy(at_least=0.85)
def one_cycle_with_a_high_peak(watch: Watch, *, seed: int) -> float:
    """``OneCycleLR`` up to 0.3 with batch norm: the loss is restless in the middle and calm at the end."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=261)
    fit(watch, net, optimizer, data, steps=260, batch_size=64, scheduler=schedule)
    return accuracy(net, data)


@healthy(at_least=0.8)
def restarts_that_shake_the_loss(watch: Watch, *, seed: int) -> float:
    """Cosine restarts after 40, 80 and 160 steps: the loss jumps up three times and comes back lower."""
    data, _, _ = material.drawings(seed)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(),
                        nn.Flatten(), nn.Linear(256, 3))  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 40, 2, 1e-5)
    fit(watch, net, optimizer, data, steps=280, batch_size=32, scheduler=schedule)
    return accuracy(net, data)


@healthy(at_least=0.8)
def lbfgs_for_a_curve(watch: Watch, *, seed: int) -> float:
    """LBFGS with a strong Wolfe search on all rows: twenty steps of many evaluations each."""
    data = material.curve(seed)
    net = material.mlp(4, 16, 1, act=nn.Tanh)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=1.0, max_iter=5, line_search_fn="strong_wolfe")
    session = watch(net, optimizer)
    for _ in range(24):

        def closure() -> Tensor:
            optimizer.zero_grad()
            decay = sum(one.square().sum() for one in net.parameters())
            loss = F.mse_loss(net(data.inputs), data.targets) + 1e-4 * decay
            loss.backward()
            return loss

        session.step(closure(), inputs=data.inputs, targets=data.targets)
        optimizer.step(closure)  # type: ignore[arg-type]
    return r_squared(net, data)


@healthy(at_least=0.9)
def amsgrad_with_much_decay(watch: Watch, *, seed: int) -> float:
    """``AdamW(amsgrad=True, weight_decay=0.1)``, as for transformers, on wines."""
    data = datasets.wine(seed)
    net = material.mlp(13, 32, 3, act=nn.GELU)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.1, amsgrad=True)
    fit(watch, net, optimizer, data, steps=160, batch_size=32, validate_every=20)
    return accuracy(net, data)


@healthy(at_least=0.85)
def one_optimizer_a_layer(watch: Watch, *, seed: int) -> float:
    """The embedding by Adagrad, everything else by SGD: two optimizers for one model, both zeroed and stepped."""
    data = material.brackets(seed)
    code, rest = nn.Embedding(3, 16), nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 2))
    slow = torch.optim.Adagrad(code.parameters(), lr=0.05)
    fast = torch.optim.SGD(rest.parameters(), lr=0.05, momentum=0.9)
    one, two = watch(code, slow), watch(rest, fast)
    for x, y in data.batches(32, 260):
        slow.zero_grad()
        fast.zero_grad()
        values = code(x)
        out = rest(values)
        loss = F.cross_entropy(out, y)
        loss.backward()
        one.step(loss, inputs=x, outputs=values)
        two.step(loss, inputs=values, outputs=out, targets=y)
        slow.step()
        fast.step()
    return accuracy(nn.Sequential(code, rest), data)


@healthy(at_least=0.7)
def tuned_by_random_directions(watch: Watch, *, seed: int) -> float:
    """Gradients in forward mode along one random direction a step: unbiased, very noisy, slow, and falling."""
    data = datasets.iris(seed)
    net = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 400):
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        along = [torch.randn_like(one) for one in net.parameters()]
        slope = sum((one.grad * way).sum() for one, way in zip(net.parameters(), along, strict=True))
        for one, way in zip(net.parameters(), along, strict=True):
            one.grad = slope * way
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@healthy(at_least=0.7)
def a_plateau_that_is_cut_in_half(watch: Watch, *, seed: int) -> float:
    """``ReduceLROnPlateau`` told validation's loss once an epoch: it halves the rate twice or so, late."""
    data = material.rings(seed)
    net = material.mlp(2, 32, 32, 3, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=4)
    session = watch(net, optimizer)
    for _ in range(24):
        for x, y in data.batches(40, 15):
            out = net(x)
            descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
        held = held_out_loss(net, data)
        session.validation(held)
        schedule.step(held)
    return accuracy(net, data)
