"""Sound trainings on rows of numbers: heavy tails, rare kinds, noise, odd losses."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared

from . import material
from .material import descend


@healthy(at_least=0.1)
def mostly_noise(watch: Watch, *, seed: int) -> float:
    """More than half of the variance is noise: the loss stands at the noise's floor early."""
    data = material.curve(seed, count=1500, noise=1.4)
    net = material.mlp(4, 24, 1, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=6e-3, weight_decay=1e-3)
    fit(watch, net, optimizer, data, steps=220, batch_size=64, loss_function=F.mse_loss)
    return r_squared(net, data)


@healthy(at_least=0.8)
def heavy_tails_under_log_cosh(watch: Watch, *, seed: int) -> float:
    """Noise of Student's t with 1.5 degrees: a loss of logarithms of cosh keeps the single large errors small."""
    data = material.curve(seed, count=1200, noise=0.0)
    noise = torch.distributions.StudentT(torch.tensor(1.5)).sample(data.targets.shape) * 0.1
    net = material.mlp(4, 48, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(noise), (350, 48)):
        x, y = data.inputs[rows], (data.targets + noise)[rows]
        out = net(x)
        error = out - y
        loss = (error + F.softplus(-2 * error) - math.log(2)).mean()
        descend(session, optimizer, loss, inputs=x, outputs=out, targets=y)
    return r_squared(net, data)


@healthy(at_least=0.8)
def frauds_weighted_as_they_deserve(watch: Watch, *, seed: int) -> float:
    """One row of forty is a fraud, ``pos_weight`` makes up for it. Quality: mean recall of both kinds."""
    random = material.drawn(seed)
    fraud = torch.rand(2400, generator=random) < 1 / 40
    x = torch.randn(2400, 6, generator=random) + fraud[:, None] * torch.tensor([2.0, -1.5, 1.0, 0, 0, 0.5])
    data = material.parted(x, fraud.float()[:, None])
    net = material.mlp(6, 16, 1, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=1e-2)
    criterion = nn.BCEWithLogitsLoss(pos_weight=1 / data.targets.mean() - 1)
    fit(watch, net, optimizer, data, steps=300, batch_size=96, loss_function=criterion)
    return material.balanced((predicted(net, data.test_inputs)[:, 0] > 0).float(), data.test_targets[:, 0])


@healthy(at_least=0.7)
def one_label_of_five_is_wrong(watch: Watch, *, seed: int) -> float:
    """A fifth of the labels are drawn at random, and label smoothing goes with it: the loss stays high, and should."""
    data = datasets.digits(seed)
    random = material.drawn(seed)
    wrong = torch.rand(len(data.targets), generator=random) < 0.2
    labels = torch.where(wrong, torch.randint(10, (len(wrong),), generator=random), data.targets)
    noisy = datasets.Data(data.inputs, labels, data.test_inputs, data.test_targets)
    net = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.02)
    fit(watch, net, optimizer, noisy, steps=240, batch_size=64, loss_function=nn.CrossEntropyLoss(label_smoothing=0.1))
    return accuracy(net, data)


@healthy(at_least=0.6)
def counts_by_their_likelihood(watch: Watch, *, seed: int) -> float:
    """Counts under ``PoissonNLLLoss`` with logarithms of rates: the loss is below zero from early on."""
    data = material.curve(seed, count=2000, noise=0.0)
    rate, asked = (1.5 + 0.8 * data.targets).exp(), (1.5 + 0.8 * data.test_targets)
    counts = torch.poisson(rate, generator=material.drawn(seed))
    net = material.mlp(4, 40, 1, act=nn.SiLU)
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(counts), (400, 48)):
        out = net(data.inputs[rows])
        loss = F.poisson_nll_loss(out, counts[rows])
        descend(session, optimizer, loss, inputs=data.inputs[rows], outputs=out, targets=counts[rows])
    return material.fit_of(predicted(net, data.test_inputs), asked)


@healthy(at_least=0.85)
def a_summed_loss_at_a_rate_for_sums(watch: Watch, *, seed: int) -> float:
    """``reduction="sum"`` over 64 rows of ten classes: losses begin near 147; the rate is sixty times smaller."""
    data = datasets.digits(seed)
    net = material.mlp(64, 40, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 / 64, momentum=0.9)
    fit(watch, net, optimizer, data, steps=260, batch_size=64, loss_function=nn.CrossEntropyLoss(reduction="sum"))
    return accuracy(net, data)


@healthy(at_least=0.85)
def four_flowers_a_step(watch: Watch, *, seed: int) -> float:
    """Batches of four flowers with plain SGD: the loss jumps by its nature, and falls."""
    data = datasets.iris(seed)
    net = material.mlp(4, 12, 3, act=nn.Tanh)
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.05), data, steps=400, batch_size=4)
    return accuracy(net, data)


@healthy(at_least=0.35)
def a_lasso_that_selects(watch: Watch, *, seed: int) -> float:
    """A linear model of progression with a lasso by proximal steps: some weights are exactly zero, as they should."""
    data = datasets.diabetes(seed)
    net = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 200):
        out = net(x)
        descend(session, optimizer, F.mse_loss(out, y), inputs=x, outputs=out, targets=y)
        with torch.no_grad():
            net.weight.copy_(net.weight.sign() * (net.weight.abs() - 0.05 * 0.05).clamp(min=0))
    return r_squared(net, data)


@healthy(at_least=0.65)
def quantiles_that_do_not_cross(watch: Watch, *, seed: int) -> float:
    """Three quantiles by a pinball loss, the outer ones as softplus steps from the middle."""
    data = material.curve(seed, noise=0.3)
    net = material.mlp(4, 48, 3)
    levels = torch.tensor([0.1, 0.5, 0.9])

    def pinball(out: Tensor, targets: Tensor) -> Tensor:
        middle, low, high = out.split(1, 1)
        error = targets - torch.cat([middle - F.softplus(low), middle, middle + F.softplus(high)], 1)
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    fit(watch, net, torch.optim.NAdam(net.parameters(), lr=4e-3), data, steps=300, batch_size=40, loss_function=pinball)
    return material.fit_of(predicted(net, data.test_inputs)[:, :1], data.test_targets)


@healthy(at_least=0.8)
def five_labels_some_of_them_unknown(watch: Watch, *, seed: int) -> float:
    """Five labels at once, a third of which nobody has given: they are masked out of the loss."""
    data = material.flags(seed)
    known = (torch.rand(data.targets.shape, generator=material.drawn(seed)) > 0.33).float()
    net = material.mlp(12, 40, 5)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(known), (280, 32)):
        out = net(data.inputs[rows])
        each = F.binary_cross_entropy_with_logits(out, data.targets[rows], reduction="none")
        loss = (each * known[rows]).sum() / known[rows].sum()
        descend(session, optimizer, loss, inputs=data.inputs[rows], outputs=out, targets=data.targets[rows])
    return ((predicted(net, data.test_inputs) > 0) == (data.test_targets > 0.5)).float().mean().item()


@healthy(at_least=0.85)
def an_ordinary_logistic_regression(watch: Watch, *, seed: int) -> float:
    """One linear layer, whole-batch Nesterov, a convex loss: smooth from first to last."""
    data = datasets.breast_cancer(seed)
    net = nn.Linear(30, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
    session = watch(net, optimizer)
    for _ in range(120):
        out = net(data.inputs)
        loss = F.cross_entropy(out, data.targets)
        descend(session, optimizer, loss, inputs=data.inputs, outputs=out, targets=data.targets)
    return accuracy(net, data)


@healthy(at_least=0.75)
def times_until_an_event_some_of_them_censored(watch: Watch, *, seed: int) -> float:
    """Survival under Cox's partial likelihood, a third censored. Quality: share of pairs in the right order."""
    data = material.curve(seed, noise=0.1)
    times = torch.distributions.Exponential(1.0).sample(data.targets.shape)[:, 0] * (-1.5 * data.targets[:, 0]).exp()
    seen = torch.rand(len(times), generator=material.drawn(seed)) > 0.33
    net = material.mlp(4, 24, 1, act=nn.SiLU)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=1e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(times), (250, 64)):
        rows = rows[times[rows].argsort(descending=True)]
        risk = net(data.inputs[rows])[:, 0]
        loss = -((risk - risk.logcumsumexp(0)) * seen[rows]).sum() / seen[rows].sum()
        descend(session, optimizer, loss, inputs=data.inputs[rows], outputs=risk)
    risk, truth = predicted(net, data.test_inputs), data.test_targets
    return (((risk > risk.T) == (truth > truth.T)).float().mean()).item()
