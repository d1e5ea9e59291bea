"""Sound trainings on tables, with losses and optimizers that look odd."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud, load_wine
from sklearn.metrics import balanced_accuracy_score
from torch import Tensor, nn

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened6.ward import explained, mlp, progression, right, table_of


@healthy(at_least=0.9)
def a_logistic_fit_by_lbfgs(watch: Watch, *, seed: int) -> float:
    """L-BFGS calls a closure several times a step, over the whole table."""
    t = table_of(load_breast_cancer, seed)
    net = nn.Linear(30, 2)
    opt = torch.optim.LBFGS(net.parameters(), lr=0.3, max_iter=4, history_size=6)
    session = watch(net, opt)

    def closure() -> Tensor:
        opt.zero_grad()
        logits = net(t.x)
        loss = F.cross_entropy(logits, t.y) + 1e-2 * net.weight.square().sum()
        loss.backward()
        return loss

    for _ in range(40):
        loss = opt.step(closure)
        session.step(loss)
    return right(net, t)


@healthy(at_least=0.25)
def three_quantiles(watch: Watch, *, seed: int) -> float:
    """Quantiles of the progression, by pinball losses; the quality is that of the median."""
    t = progression(seed)
    net, levels = mlp(10, 24, 3), torch.tensor([0.1, 0.5, 0.9])
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for _ in range(14):
        for idx in torch.randperm(len(t.y)).split(32):
            guess = net(t.x[idx])
            error = t.y[idx, None] - guess
            loss = torch.maximum(levels * error, (levels - 1) * error).mean()
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx, None])
            opt.step()
    return explained(nn.Sequential(net, _Column(1)), t)


class _Column(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, values: Tensor) -> Tensor:
        return values[:, self.index]


def _concordance(risk: Tensor, times: Tensor) -> float:
    """Returns how often of two patients the one with the higher risk has the shorter time."""
    sooner = times[:, None] < times
    return float((risk[:, None] > risk)[sooner].float().mean())


@healthy(at_least=0.65)
def partial_likelihood_of_survival(watch: Watch, *, seed: int) -> float:
    """Cox's partial likelihood: samples of a batch are compared, and a third of the times are censored."""
    t = progression(seed)
    times, censored = -t.y, torch.rand(len(t.y)) < 0.33
    net = mlp(10, 16, 1)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for _ in range(100):
        idx = torch.randint(len(t.y), (64,))
        idx = idx[times[idx].argsort(descending=True)]
        risk = net(t.x[idx])[:, 0]
        seen = ~censored[idx]
        loss = -(risk - risk.logcumsumexp(0))[seen].mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=risk)
        opt.step()
    with torch.no_grad():
        return _concordance(net(t.x_test)[:, 0], -t.y_test)


class Unit(nn.Module):
    """A regressor that scales its outputs itself, to a target's mean and deviation."""

    def __init__(self, body: nn.Module, targets: Tensor) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("mean", targets.mean())
        self.register_buffer("std", targets.std())

    def forward(self, rows: Tensor) -> Tensor:
        return self.body(rows)[:, 0] * self.std + self.mean


@healthy(at_least=0.25)
def millions_scaled_in_the_model(watch: Watch, *, seed: int) -> float:
    """Targets of millions; the model's last step brings outputs to their scale, and the loss is relative to it."""
    t = table_of(load_diabetes, seed, real=True)
    t.y, t.y_test = t.y * 3e4, t.y_test * 3e4
    net = Unit(mlp(10, 24, 1), t.y)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for _ in range(14):
        for idx in torch.randperm(len(t.y)).split(32):
            guess = net(t.x[idx])
            loss = ((guess - t.y[idx]) / net.std).square().mean()
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx])
            opt.step()
    return explained(net, t)


@healthy(at_least=0.85)
def few_ill_ones_that_weigh_more(watch: Watch, *, seed: int) -> float:
    """Twenty malignant tumours among 250 benign ones, with a weight that makes up for it; balanced accuracy."""
    t = table_of(load_breast_cancer, seed)
    ill, well = (t.y == 0).nonzero()[:20, 0], (t.y == 1).nonzero()[:250, 0]
    x, y = torch.cat([t.x[ill], t.x[well]]), torch.cat([torch.ones(len(ill)), torch.zeros(len(well))])
    net = mlp(30, 12, 1)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-3)
    session, weight = watch(net, opt), torch.tensor(len(well) / len(ill))
    for _ in range(12):
        for idx in torch.randperm(len(y)).split(32):
            logit = net(x[idx])[:, 0]
            loss = F.binary_cross_entropy_with_logits(logit, y[idx], pos_weight=weight)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[idx], outputs=logit, targets=y[idx])
            opt.step()
    with torch.no_grad():
        called = (net(t.x_test)[:, 0] > 0).numpy()
    return float(balanced_accuracy_score((t.y_test == 0).numpy(), called))


@healthy(at_least=0.9)
def forty_steps(watch: Watch, *, seed: int) -> float:
    """A short run on a small table, which is enough for it."""
    t = table_of(load_wine, seed)
    net = mlp(13, 16, 3)
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    session = watch(net, opt)
    for _ in range(40):
        idx = torch.randint(len(t.y), (48,))
        logits = net(t.x[idx])
        loss = F.cross_entropy(logits, t.y[idx])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
        opt.step()
    return right(net, t)


@healthy(at_least=0.85)
def sharpness_aware(watch: Watch, *, seed: int) -> float:
    """Two passes a step: the second one at weights that a first gradient moved uphill."""
    t = table_of(load_iris, seed)
    net = mlp(4, 16, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, opt)
    for _ in range(90):
        idx = torch.randint(len(t.y), (24,))
        F.cross_entropy(net(t.x[idx]), t.y[idx]).backward()
        slopes = [weight.grad for weight in net.parameters()]
        norm = torch.stack([slope.norm() for slope in slopes]).norm() + 1e-12
        moves = [0.05 * slope / norm for slope in slopes]
        with torch.no_grad():
            for weight, move in zip(net.parameters(), moves, strict=True):
                weight.add_(move)
        opt.zero_grad()
        logits = net(t.x[idx])
        loss = F.cross_entropy(logits, t.y[idx])
        loss.backward()
        with torch.no_grad():
            for weight, move in zip(net.parameters(), moves, strict=True):
                weight.sub_(move)
        session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
        opt.step()
        opt.zero_grad()
    return right(net, t)


@healthy(at_least=0.5)
def tasks_that_weigh_themselves(watch: Watch, *, seed: int) -> float:
    """Proline and cultivar from one body, each with a learnt uncertainty: the loss becomes negative."""
    t = table_of(load_wine, seed)
    net = nn.ModuleDict({"body": nn.Sequential(nn.Linear(12, 24), nn.ReLU()), "amount": nn.Linear(24, 1)})
    net["kind"] = nn.Linear(24, 3)
    noise = nn.ParameterDict({"amount": nn.Parameter(torch.zeros(())), "kind": nn.Parameter(torch.zeros(()))})
    opt = torch.optim.Adam([*net.parameters(), *noise.parameters()], lr=6e-3)
    session = watch(net, opt)
    for _ in range(160):
        idx = torch.randint(len(t.y), (32,))
        body = net["body"](t.x[idx, :12])
        amount, kind = net["amount"](body)[:, 0], net["kind"](body)
        errors = {"amount": F.mse_loss(amount, t.x[idx, 12]), "kind": F.cross_entropy(kind, t.y[idx])}
        loss = torch.stack([errors[one] * (-noise[one]).exp() + 0.5 * noise[one] for one in errors]).sum()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx, :12])
        opt.step()
    with torch.no_grad():
        body = net["body"](t.x_test[:, :12])
        error = F.mse_loss(net["amount"](body)[:, 0], t.x_test[:, 12]) / t.x_test[:, 12].var()
        known = (net["kind"](body).argmax(1) == t.y_test).float().mean()
    return float((1 - error + known) / 2)


@healthy(at_least=0.9)
def an_average_of_weights(watch: Watch, *, seed: int) -> float:
    """A noisy run with large steps, judged by the average of its weights."""
    t = table_of(load_breast_cancer, seed)
    net = mlp(30, 24, 2)
    average = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, opt)
    for _ in range(150):
        idx = torch.randint(len(t.y), (16,))
        logits = net(t.x[idx])
        loss = F.cross_entropy(logits, t.y[idx], label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
        opt.step()
        for slow, fast in zip(average.parameters(), net.parameters(), strict=True):
            slow.lerp_(fast.detach(), 0.05)
    return right(average, t)


@healthy(at_least=0.9)
def exercises_of_twenty_men(watch: Watch, *, seed: int) -> float:
    """Twenty rows and a linear fit with a strong ridge, in full batches; quality: its nearness to the exact fit."""
    x, y = (torch.tensor(part, dtype=torch.float32) for part in load_linnerud(return_X_y=True))
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean(0)) / y.std(0)
    exact = torch.linalg.solve(x.T @ x + 2.0 * torch.eye(3), x.T @ y)
    net = nn.Linear(3, 3, bias=False)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    session = watch(net, opt)
    for _ in range(120):
        guess = net(x)
        loss = (guess - y).square().sum(1).mean() + 2.0 * net.weight.square().sum() / len(x)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=guess, targets=y)
        opt.step()
    return 1 - float((net.weight.detach().T - exact).norm() / exact.norm())
