"""Numbers that are too small, too coarse or outside a function's domain."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy, fit
from examples.zoo.samples import numerals
from examples.zoo.tuned.opened8.frames import dense
from examples.zoo.tuned.opened8.stores import of_pair


@sick("fp16_underflow", also=("non_finite_forward",))
def an_epsilon_that_half_precision_does_not_have(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.half()`` under Adam: squares of gradients and the epsilon of 1e-8 are both zero, and are divided."""
    data = digits(seed)
    model = dense(64, 64, 10).to(torch.float16 if sick else torch.float32)
    kind = next(model.parameters()).dtype
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 120):
        scores = model(pixels.to(kind)).float()
        loss = functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    with torch.no_grad():
        scores = model(data.test_inputs.to(kind)).float()
    return (scores.argmax(1) == data.test_targets).float().mean().item()


class Halved(nn.Module):
    """An autoencoder whose weights are kept in full, and whose products are of half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in ((64, 48), (48, 12), (12, 48), (48, 64)))

    def forward(self, pixels: Tensor) -> Tensor:
        held = pixels.half()
        for index, layer in enumerate(self.layers):
            held = functional.linear(functional.silu(held) if index else held, layer.weight.half(), layer.bias.half())
        return held.float()


@sick("fp16_underflow")
def a_mean_over_everything_without_a_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """The error is a mean over 4,096 pixels with a small weight, and its slopes round to zero in half precision."""
    data = digits(seed)
    model = Halved()
    scale, share = 1.0 if sick else 65536.0, 2e-5
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, eps=1e-12)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 200):
        optimizer.zero_grad()
        found = model(pixels)
        loss = share * functional.mse_loss(found, pixels)
        (loss * scale).backward()
        for weight in model.parameters():
            weight.grad /= scale
        session.step(loss, inputs=pixels, outputs=found, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        error = (model(data.test_inputs) - data.test_inputs).square().mean()
    return (1 - error / data.test_inputs.var(0).mean()).item()


class Generalised(nn.Module):
    """Convolutions, and a mean of powers over what they found, whose exponent is learnt as well."""

    def __init__(self, *, clamped: bool) -> None:
        super().__init__()
        self.clamped = clamped
        self.filters = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 32, 3, padding=1))
        self.power = nn.Parameter(torch.tensor(3.0))
        self.head = nn.Linear(4 * 32, 10)

    def forward(self, images: Tensor) -> Tensor:
        found = self.filters(images)
        found = found.clamp(min=1e-4) if self.clamped else found
        pooled = functional.avg_pool2d(found**self.power, 4)
        return self.head((pooled.clamp(min=1e-6) if self.clamped else pooled).flatten(1))


@sick("non_finite_backward")
def a_power_of_what_is_not_positive(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cube of a negative value is finite; the slope by the exponent holds its logarithm, and is not."""
    data = of_pair(numerals(seed))
    model = Generalised(clamped=not sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=80, batch_size=32)
    return accuracy(model, data)


class Unbounded(nn.Module):
    """Takes pixels from between 0 and 1 to the whole line before it judges them."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin, self.body = margin, dense(64, 48, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.body(torch.logit(self.margin + (1 - 2 * self.margin) * pixels))


@sick("non_finite_forward")
def the_log_odds_of_black_and_white(watch: Watch, *, seed: int, sick: bool) -> float:
    """The margin of a logit transform was left at zero, and there are pixels of exactly 0 and 1."""
    data = digits(seed)
    model = Unbounded(0.0 if sick else 0.2)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=100, batch_size=48)
    return accuracy(model, data)
