"""Gradients that are held too tightly, or at the wrong place, or that nothing holds."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import diabetes, digits
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.samples import lines, numerals, standardised
from examples.zoo.tuned.opened8.frames import dense
from examples.zoo.tuned.opened8.stores import of_pair


@sick("clipping_too_strong")
def a_share_of_the_weights_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adaptive clipping bounds each row's gradient by a share of its weights, and the share is a hundred-thousandth."""
    data = of_pair(standardised(lines(seed), 0))
    model = dense(96, 64, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    share = 1e-5 if sick else 0.3
    session = watch(model, optimizer)
    for counts, files in data.batches(64, 160):
        optimizer.zero_grad()
        scores = model(counts)
        loss = functional.cross_entropy(scores, files)
        loss.backward()
        for weight in model.parameters():
            limit = share * weight.detach().norm(dim=-1, keepdim=True).clamp(min=1e-3)
            weight.grad.mul_((limit / weight.grad.norm(dim=-1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0))
        session.step(loss, inputs=counts, outputs=scores, targets=files)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong")
def the_limit_shrinks_with_the_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """The limit was written as a multiple of the rate, so that momentum has nothing left to gather."""
    data = diabetes(seed)
    model = dense(10, 32, 1, between=nn.SiLU)
    rate = 0.01
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    session = watch(model, optimizer)
    for patients, progress in data.batches(40, 160):
        found = model(patients)
        loss = functional.mse_loss(found, progress)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.2 * rate if sick else 20.0)
        session.step(loss, inputs=patients, outputs=found, targets=progress)
        optimizer.step()
    return r_squared(model, data)


class Flow(nn.Module):
    """Moves a state along a learnt slope in Euler's steps, whose parameters are the same in each of them."""

    def __init__(self, *, step: float, count: int = 16, width: int = 32) -> None:
        super().__init__()
        self.step, self.count = step, count
        self.enter = nn.Linear(64, width)
        self.slope = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        state = self.enter(pixels)
        for _ in range(self.count):
            state = state + self.step * self.slope(state)
        return self.head(state)


@sick("exploding_gradients")
def euler_with_steps_of_three(watch: Watch, *, seed: int, sick: bool) -> float:
    """The span was divided by nothing: sixteen steps of 3 instead of sixteen that make up one together."""
    data = digits(seed)
    model = Flow(step=3.0 if sick else 1 / 16)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=6e-3), data, steps=130, batch_size=48)
    return accuracy(model, data)


class Powers(nn.Module):
    """Multiplies the features of a digit with those of a linear map of it, again and again."""

    def __init__(self, *, normed: bool, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(64, width)
        self.maps = nn.ModuleList(nn.Linear(width, width) for _ in range(5))
        self.norms = nn.ModuleList(nn.LayerNorm(width) if normed else nn.Identity() for _ in range(5))
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        first = held = self.enter(images.flatten(1))
        for one, norm in zip(self.maps, self.norms, strict=True):
            held = norm(held + first * 3 * one(held))
        return self.head(held)


@sick("exploding_gradients", also=("learning_rate_too_high",))
def products_of_the_fifth_degree(watch: Watch, *, seed: int, sick: bool) -> float:
    """A polynomial net without its norms: outputs and gradients grow with the sixth power of what comes in."""
    data = of_pair(numerals(seed))
    model = Powers(normed=not sick)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), data, steps=150, batch_size=48)
    return accuracy(model, data)
