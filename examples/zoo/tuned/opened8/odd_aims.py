"""Sound trainings whose losses look odd: ones that rise, stay level, turn signs, or never come near zero."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, breast_cancer, diabetes, digits
from examples.zoo.loops import fit
from examples.zoo.tuned.opened8.frames import dense
from examples.zoo.tuned.opened8.stores import company


class Reversed(torch.autograd.Function):
    """Passes values on, and turns the sign of what comes back."""

    @staticmethod
    def forward(ctx: object, values: Tensor, strength: float) -> Tensor:
        ctx.strength = strength  # type: ignore[attr-defined]
        return values.view_as(values)

    @staticmethod
    def backward(ctx: object, slope: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * slope, None  # type: ignore[attr-defined]


class Adapting(nn.Module):
    """Features that tell digits apart, and do not tell whether they were printed in negative."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.label, self.domain = dense(64, 64, 32), nn.Linear(32, 10), dense(32, 24, 2)

    def forward(self, pixels: Tensor, strength: float = 0.0) -> tuple[Tensor, Tensor]:
        found = functional.relu(self.body(pixels))
        return self.label(found), self.domain(Reversed.apply(found, strength))


@healthy(at_least=0.85)
def a_judge_whose_slope_is_turned(watch: Watch, *, seed: int) -> float:
    """Domains are made alike by a reversed gradient: the judge's loss rises to log 2, as it is meant to."""
    data = digits(seed)
    model = Adapting()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(48, 200)):
        faint = torch.rand(len(pixels)) < 0.5
        seen = torch.where(faint[:, None], 0.6 * pixels + 0.4 * torch.rand_like(pixels), pixels)
        optimizer.zero_grad()
        scores, domain = model(seen, 0.2 * (2 / (1 + math.exp(-step / 25)) - 1))
        loss = functional.cross_entropy(scores, labels) + functional.cross_entropy(domain, faint.long())
        loss.backward()
        session.step(loss, inputs=seen, outputs=scores, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs)[0].argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.8)
def variance_kept_and_covariance_removed(watch: Watch, *, seed: int) -> float:
    """VICReg on tables: two halves of a tumour's columns meet in one code; quality: a linear probe of the code."""
    data = breast_cancer(seed)
    model = dense(30, 48, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(96, 150):
        optimizer.zero_grad()
        views = [rows * (torch.rand_like(rows) > 0.4) for _ in range(2)]
        one, two = model(views[0]), model(views[1])
        loss = 25 * functional.mse_loss(one, two)
        for code in (one, two):
            centred = code - code.mean(0)
            covariance = centred.T @ centred / (len(code) - 1)
            loss = loss + 25 * functional.relu(1 - (code.var(0) + 1e-4).sqrt()).mean()
            loss = loss + (covariance.square().sum() - covariance.diagonal().square().sum()) / 8
        loss.backward()
        session.step(loss, inputs=views[0], outputs=one)
        optimizer.step()
    with torch.no_grad():
        known, asked = (functional.pad(model(rows), (1, 0), value=1.0) for rows in (data.inputs, data.test_inputs))
    fitted = torch.linalg.lstsq(known, data.targets[:, None].float() * 2 - 1).solution
    return ((asked @ fitted).squeeze(1).gt(0) == data.test_targets.bool()).float().mean().item()


class Process(nn.Module):
    """The three numbers of a Gaussian process: length, height, and noise, as logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.length, self.height, self.noise = (nn.Parameter(torch.tensor(one)) for one in (1.0, 0.0, -1.0))

    def kernel(self, one: Tensor, two: Tensor) -> Tensor:
        """Returns how much rows have in common."""
        distances = (one[:, None] - two).square().sum(-1)
        return (2 * self.height).exp() * torch.exp(-0.5 * distances * (-2 * self.length).exp())

    def forward(self, rows: Tensor) -> Tensor:
        return self.kernel(rows, rows) + (2 * self.noise).exp() * torch.eye(len(rows))


@healthy(at_least=0.25)
def three_numbers_of_a_process(watch: Watch, *, seed: int) -> float:
    """A marginal likelihood of 120 patients at once: each step sees all of them, and three scalars are learnt."""
    data = diabetes(seed)
    rows, progress = data.inputs[:120], data.targets[:120]
    model = Process()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for _ in range(100):
        optimizer.zero_grad()
        covariance = model(rows)
        normal = torch.distributions.MultivariateNormal(torch.zeros(120), covariance)
        loss = -normal.log_prob(progress.squeeze(1)) / 120
        loss.backward()
        session.step(loss, inputs=rows, targets=progress)
        optimizer.step()
    with torch.no_grad():
        found = model.kernel(data.test_inputs, rows) @ torch.linalg.solve(model(rows), progress)
        return (1 - (found - data.test_targets).square().mean() / data.test_targets.var()).item()


class Ordered(nn.Module):
    """An autoregressive net of a digit in black and white: masks leave each pixel only those before it."""

    def __init__(self, width: int = 88) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(64, width), nn.Linear(width, 64)
        order = torch.arange(width) % 63
        self.register_buffer("first", (order[:, None] >= torch.arange(64)).float())
        self.register_buffer("second", (torch.arange(64)[:, None] > order).float())

    def forward(self, pixels: Tensor) -> Tensor:
        held = functional.relu(functional.linear(pixels, self.inward.weight * self.first, self.inward.bias))
        return functional.linear(held, self.outward.weight * self.second, self.outward.bias)


@healthy(at_least=0.5)
def pixels_in_their_order(watch: Watch, *, seed: int) -> float:
    """Half of the weights are masked for good, and the loss ends at the entropy of digits; quality: 1 - bits of 64."""
    data = digits(seed)
    black, white = (data.inputs > 0.5).float(), (data.test_inputs > 0.5).float()
    model = Ordered()
    pairs = Data(black, black, white, white)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    bent = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300, eta_min=1e-4)
    fit(watch, model, optimizer, pairs, steps=300, scheduler=bent,
        loss_function=functional.binary_cross_entropy_with_logits)  # fmt: skip
    with torch.no_grad():
        return 1 - functional.binary_cross_entropy_with_logits(model(white), white).item() / math.log(2)


class Words(nn.Module):
    """Two vectors and two biases for each word."""

    def __init__(self, count: int, width: int = 8) -> None:
        super().__init__()
        self.left, self.right = (nn.Parameter(0.2 * torch.randn(count, width)) for _ in range(2))
        self.of_left, self.of_right = (nn.Parameter(torch.zeros(count)) for _ in range(2))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return (self.left[left] * self.right[right]).sum(1) + self.of_left[left] + self.of_right[right]


@healthy(at_least=0.35)
def logarithms_of_company(watch: Watch, *, seed: int) -> float:
    """GloVe: frequent pairs of words weigh more, most rows rest in a step; quality: weighted R² of pairs held out."""
    near = company()
    left, right = near.nonzero().unbind(1)
    logs = near[left, right].log()
    order = torch.randperm(len(left))
    train, test = order[len(order) // 5 :], order[: len(order) // 5]
    model = Words(len(near))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.3)
    session = watch(model, optimizer)
    for _ in range(300):
        batch = train[torch.randint(len(train), (512,))]
        optimizer.zero_grad()
        found = model(left[batch], right[batch])
        weight = (near[left[batch], right[batch]] / 50).clamp(max=1.0) ** 0.75
        loss = (weight * (found - logs[batch]).square()).mean()
        loss.backward()
        session.step(loss, outputs=found, targets=logs[batch])
        optimizer.step()
    with torch.no_grad():
        weight = (near[left[test], right[test]] / 50).clamp(max=1.0) ** 0.75
        error = (weight * (model(left[test], right[test]) - logs[test]).square()).sum()
        mean = (weight * logs[test]).sum() / weight.sum()
    return (1 - error / (weight * (logs[test] - mean).square()).sum()).item()
