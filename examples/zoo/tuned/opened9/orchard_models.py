"""Sound models that are built or judged in an odd way: one class alone, drawn weights, sets, sums of curves."""

import torch
import torch.nn.functional as F  # noqa: N812
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened9.ladle_tools import (
    cooked,
    flat_numerals,
    glances,
    ladled,
    layers,
    right,
    served,
    simmered,
)  # fmt: skip


@healthy(at_least=0.85)
def only_the_benign_ones_are_seen(watch: Watch, *, seed: int) -> float:
    """Deep SVDD: benign tumours are drawn to one point, by a net without biases. Quality: area under the curve."""
    data = datasets.breast_cancer(seed)
    train = TensorDataset(data.inputs[data.targets == 1])
    mean, std = train.tensors[0].mean(0), train.tensors[0].std(0)
    train = TensorDataset((train.tensors[0] - mean) / std)
    model = nn.Sequential(nn.Linear(30, 24, bias=False), nn.LeakyReLU(0.1), nn.Linear(24, 8, bias=False))
    with torch.no_grad():
        centre = model(train.tensors[0]).mean(0)
        centre = torch.where(centre.abs() < 0.1, 0.1 * torch.sign(centre), centre)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = simmered(optimizer, 150)
    session = watch(model, optimizer)
    for (x,) in ladled(train, 48, 150):
        optimizer.zero_grad()
        out = model(x)
        loss = (out - centre).square().sum(1).mean()
        loss.backward()
        session.step(loss, inputs=x, outputs=out)
        optimizer.step()
        schedule.step()
    away = (served(model, (data.test_inputs - mean) / std) - centre).square().sum(1)
    return float(roc_auc_score(data.test_targets == 0, away))


class Drawn(nn.Module):
    """A linear layer whose weights are drawn in each pass from normal distributions that are learnt."""

    def __init__(self, above: int, below: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.randn(below, above) / above**0.5)
        self.spread = nn.Parameter(torch.full((below, above), -4.0))
        self.bias = nn.Parameter(torch.zeros(below))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return F.linear(x, self.mean, self.bias)
        noise = F.softplus(self.spread) * torch.randn_like(self.mean)
        return F.linear(x, self.mean + noise, self.bias)

    def divergence(self) -> Tensor:
        """Kullback and Leibler's from a normal prior with a deviation of a half."""
        spread = F.softplus(self.spread) / 0.5
        return (0.5 * ((self.mean / 0.5).square() + spread.square() - 1) - spread.log()).sum()


@healthy(at_least=0.9)
def weights_drawn_in_each_pass(watch: Watch, *, seed: int) -> float:
    """Bayes by backprop: noisy weights, and a divergence in the loss that is larger than the likelihood at first."""
    train, test = flat_numerals(seed)
    model = nn.Sequential(Drawn(64, 40), nn.ReLU(), Drawn(40, 10))
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    schedule = simmered(optimizer, 320)
    session = watch(model, optimizer)
    for x, y in ladled(train, 48, 320):
        optimizer.zero_grad()
        out = model(x)
        divergence = model[0].divergence() + model[2].divergence()
        loss = F.cross_entropy(out, y) + 0.1 * divergence / len(train)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return right(model, test)


class Stamps(nn.Module):
    """An autoencoder whose code is twelve choices among eight."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = layers(64, 64, 96), layers(96, 64, 64)
        self.heat = 1.0

    def forward(self, x: Tensor) -> Tensor:
        scores = self.encoder(x).view(-1, 12, 8)
        if self.training:
            code = F.gumbel_softmax(scores, tau=self.heat, dim=2)
        else:
            code = F.one_hot(scores.argmax(2), 8).float()
        return self.decoder(code.flatten(1))


@healthy(at_least=0.45)
def choices_that_get_colder(watch: Watch, *, seed: int) -> float:
    """Gumbel's noise on a discrete code, at a temperature that falls from 1 to 0.4: the loss is noisy."""
    train, test = flat_numerals(seed)
    model = Stamps()
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    schedule = simmered(optimizer, 300)
    session = watch(model, optimizer)
    for step, (x, _) in enumerate(ladled(train, 64, 300)):
        model.heat = max(0.4, 1.0 - 0.6 * step / 200)
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, x)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=x)
        optimizer.step()
        schedule.step()
    return samples.explained(served(model, test.tensors[0]), test.tensors[0])


def _pairs(part: TensorDataset, count: int) -> tuple[Tensor, Tensor]:
    """Pictures with two digits side by side, and both numbers, in no order."""
    images, labels = part.tensors
    left, right = torch.randint(len(images), (2, count))
    swapped = torch.rand(count, 1) < 0.5
    numbers = torch.stack([labels[left], labels[right]], 1)
    return torch.cat([images[left], images[right]], 3), torch.where(swapped, numbers.flip(1), numbers)


@healthy(at_least=0.7)
def a_set_of_numbers_by_matching(watch: Watch, *, seed: int) -> float:
    """As in DETR: three answers are matched to two digits by the cheapest assignment; the third is "nothing".

    Quality: the share of digits that are found.
    """
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(768, 64), nn.ReLU(),
        nn.Linear(64, 33), nn.Unflatten(1, (3, 11)),
    )  # fmt: skip
    optimizer = optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = simmered(optimizer, 300)
    session = watch(model, optimizer)

    def matched(out: Tensor, numbers: Tensor) -> Tensor:
        wanted = torch.full((len(out), 3), 10)
        costs = -out.detach().log_softmax(2).gather(2, numbers[:, None].expand(-1, 3, -1))
        for row, cost in enumerate(costs.numpy()):
            slots, chosen = linear_sum_assignment(cost)
            wanted[row, slots] = numbers[row, chosen]
        return wanted

    for _ in range(300):
        x, numbers = _pairs(train, 32)
        optimizer.zero_grad()
        out = model(x)
        y = matched(out, numbers)
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    x, numbers = _pairs(test, 400)
    out = served(model, x)
    said, wanted = out.argmax(2), matched(out, numbers)
    return (said == wanted)[wanted < 10].float().mean().item()


class Curves(nn.Module):
    """A sum of one curve for each of thirty columns, each by a net of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(30, 30 * 6, 1, groups=30)
        self.second = nn.Conv1d(30 * 6, 30, 1, groups=30)
        self.dropped = nn.Dropout(0.1)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        curves = self.second(self.first(x[..., None]).tanh())[..., 0]
        return self.dropped(curves).sum(1) + self.bias


@healthy(at_least=0.92)
def a_curve_for_each_column(watch: Watch, *, seed: int) -> float:
    """A neural additive model, whose curves are dropped at random and are held small."""
    data = datasets.breast_cancer(seed)
    train = TensorDataset(data.inputs, data.targets.float())
    model = Curves()
    optimizer = optim.Adam(model.parameters(), lr=4e-3, weight_decay=3e-3)
    cooked(watch, model, optimizer, ladled(train, 32, 200), F.binary_cross_entropy_with_logits, steps=200)
    return ((served(model, data.test_inputs) > 0) == (data.test_targets == 1)).float().mean().item()


@healthy(at_least=0.93)
def whitened_by_a_layer_that_stays(watch: Watch, *, seed: int) -> float:
    """The first layer holds the digits' principal components, found before and frozen; two layers learn behind it."""
    train, test = flat_numerals(seed)
    _, sizes, components = torch.linalg.svd(train.tensors[0], full_matrices=False)
    whiten = nn.Linear(64, 24, bias=False)
    whiten.weight.data.copy_(components[:24] / sizes[:24, None] * len(train) ** 0.5)
    whiten.weight.requires_grad_(False)
    model = nn.Sequential(whiten, layers(24, 48, 10))
    optimizer = optim.SGD(model[1].parameters(), lr=0.05, momentum=0.9, weight_decay=2e-3)
    cooked(watch, model, optimizer, ladled(train, 32, 240), steps=240)
    return right(model, test)


@healthy(at_least=0.93)
def an_average_that_begins_late(watch: Watch, *, seed: int) -> float:
    """``ASGD`` at a restless rate, whose average begins after 150 steps, and is what is kept."""
    train, test = samples.numerals(seed)
    model = glances()
    optimizer = optim.ASGD(model.parameters(), lr=0.2, t0=150, lambd=1e-4)
    session = watch(model, optimizer)
    for x, y in ladled(train, 24, 300):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(optimizer.state[parameter]["ax"])
    return right(model, test)
