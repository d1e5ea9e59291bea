"""Sound trainings on pictures that look odd: patched pictures, hard rows alone, one picture for all steps."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened9.ladle_tools import (
    flat_numerals,
    glances,
    ladled,
    layers,
    right,
    served,
    simmered,
)  # fmt: skip


@healthy(at_least=0.9)
def rectangles_of_other_pictures(watch: Watch, *, seed: int) -> float:
    """CutMix: a rectangle of each picture is that of another, and the label is shared by area."""
    train, test = samples.numerals(seed)
    model = glances()
    optimizer = optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.02)
    schedule = simmered(optimizer, 300)
    session = watch(model, optimizer)
    for x, y in ladled(train, 48, 300):
        other = torch.randperm(len(x))
        top, left = torch.randint(6, (2,)).tolist()
        height, width = torch.randint(2, 5, (2,)).tolist()
        mixed = x.clone()
        mixed[:, :, top : top + height, left : left + width] = x[other, :, top : top + height, left : left + width]
        kept = torch.ones(8, 8)
        kept[top : top + height, left : left + width] = 0.0
        part = kept.mean()
        labels = F.one_hot(y, 10).float()
        soft = part * labels + (1 - part) * labels[other]
        optimizer.zero_grad()
        out = model(mixed)
        loss = F.cross_entropy(out, soft)
        loss.backward()
        session.step(loss, inputs=mixed, outputs=out, targets=soft)
        optimizer.step()
        schedule.step()
    return right(model, test)


@healthy(at_least=0.9)
def the_hardest_quarter_of_each_batch(watch: Watch, *, seed: int) -> float:
    """Online hard example mining: the loss is the mean of the sixteen largest of sixty-four, so it stays high."""
    train, test = samples.numerals(seed)
    model = glances()
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    schedule = simmered(optimizer, 240)
    session = watch(model, optimizer)
    for x, y in ladled(train, 64, 240):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y, reduction="none").topk(16).values.mean()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return right(model, test)


@healthy(at_least=0.6)
def one_picture_from_fixed_noise(watch: Watch, *, seed: int) -> float:
    """Deep image prior: the input is the same noise in each step, the target one picture, a third of it missing.

    Quality: R² of the missing pixels.
    """
    picture = datasets._photographs()[1][60:92, 330:362]
    image = torch.from_numpy(picture).float()[None, None]
    image = (image - image.mean()) / image.std()
    known = (torch.rand(image.shape) > 0.33).float()
    noise = 0.5 * torch.randn(1, 8, 16, 16)
    model = nn.Sequential(
        nn.Conv2d(8, 24, 3, padding=1), nn.BatchNorm2d(24), nn.LeakyReLU(0.2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(24, 24, 3, padding=1), nn.BatchNorm2d(24), nn.LeakyReLU(0.2),
        nn.Conv2d(24, 1, 1),
    )  # fmt: skip
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    schedule = simmered(optimizer, 260)
    session = watch(model, optimizer)
    for _ in range(260):
        optimizer.zero_grad()
        out = model(noise)
        loss = (known * (out - image).square()).sum() / known.sum()
        loss.backward()
        session.step(loss, inputs=noise, outputs=out, targets=image)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        hidden = known == 0
        return samples.explained(model(noise)[hidden], image[hidden])


@healthy(at_least=0.55)
def upper_halves_find_their_lower_halves(watch: Watch, *, seed: int) -> float:
    """Two towers with a learnt temperature: the targets of each step are 0, 1, 2, … 63.

    Quality: the share of upper halves that find their own lower half among thirty.
    """
    train, test = samples.standardised(samples.halves(seed), 0, 1)
    model = nn.ParameterDict({"scale": nn.Parameter(torch.tensor(2.3))})
    towers = nn.ModuleList([layers(32, 64, 16, between=nn.GELU), layers(32, 64, 16, between=nn.GELU)])
    both = nn.ModuleDict({"temperature": model, "towers": towers})
    optimizer = optim.AdamW(both.parameters(), lr=5e-3, weight_decay=0.05)
    schedule = simmered(optimizer, 280)
    session = watch(both, optimizer)

    def likeness(upper: Tensor, lower: Tensor) -> Tensor:
        left, right = (F.normalize(tower(half), dim=1) for tower, half in zip(towers, (upper, lower), strict=True))
        return model["scale"].exp().clamp(max=30) * left @ right.T

    for upper, lower in ladled(train, 64, 280):
        y = torch.arange(64)
        optimizer.zero_grad()
        out = likeness(upper, lower)
        loss = (F.cross_entropy(out, y) + F.cross_entropy(out.T, y)) / 2
        loss.backward()
        session.step(loss, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    found = []
    with torch.no_grad():
        for upper, lower in ladled(test, 30, 17, shuffle=False):
            found.append((likeness(upper, lower).argmax(1) == torch.arange(30)).float().mean())
    return torch.stack(found).mean().item()


@healthy(at_least=0.85)
def what_it_is_sure_of_becomes_a_label(watch: Watch, *, seed: int) -> float:
    """FixMatch: 150 digits have labels; of the others, only those count that the net is sure of, none at first."""
    train, test = flat_numerals(seed)
    x_all, y_all = train.tensors
    few, many = TensorDataset(x_all[:150], y_all[:150]), TensorDataset(x_all[150:])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=2e-3)
    schedule = simmered(optimizer, 320)
    session = watch(model, optimizer)
    for (x, y), (free,) in zip(ladled(few, 24, 320), ladled(many, 96, 320), strict=True):
        with torch.no_grad():
            sure, guess = model(free).softmax(1).max(1)
        strong = free * (torch.rand_like(free) > 0.15) + 0.2 * torch.randn_like(free)
        out = model(torch.cat([x + 0.1 * torch.randn_like(x), strong]))
        doubtful = F.cross_entropy(out[24:], guess, reduction="none") * (sure > 0.95)
        loss = F.cross_entropy(out[:24], y) + doubtful.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
        schedule.step()
    return right(model, test)


class Rounded(torch.autograd.Function):
    """Rounds forward, and lets gradients pass."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Coarse(nn.Linear):
    """A linear layer whose weights are seen with four bits."""

    def forward(self, x: Tensor) -> Tensor:
        step = self.weight.detach().abs().amax(1, keepdim=True) / 7
        return F.linear(x, Rounded.apply(self.weight / step) * step, self.bias)


@healthy(at_least=0.88)
def four_bits_while_it_learns(watch: Watch, *, seed: int) -> float:
    """Quantisation-aware training: in the forward pass, each weight is seen as one of fifteen values."""
    train, test = flat_numerals(seed)
    model = nn.Sequential(Coarse(64, 48), nn.ReLU(), Coarse(48, 10))
    optimizer = optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-4)
    schedule = simmered(optimizer, 240)
    session = watch(model, optimizer)
    for x, y in ladled(train, 32, 240):
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return samples.accuracy(served(model, test.tensors[0]), test.tensors[1])
