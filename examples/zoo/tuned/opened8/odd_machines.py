"""Sound nets that look odd inside: three-valued weights, pruned ones, spikes, a fixed point, chosen inputs, gains."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import breast_cancer, digits
from examples.zoo.loops import accuracy, fit
from examples.zoo.samples import lines, numerals, standardised
from examples.zoo.tuned.opened8.frames import dense
from examples.zoo.tuned.opened8.stores import of_pair


class Ternary(nn.Linear):
    """A layer whose weights are -s, 0 or s in the forward pass, and real numbers in the optimizer."""

    def forward(self, values: Tensor) -> Tensor:
        scale = self.weight.detach().abs().mean(1, keepdim=True)
        coarse = (self.weight.detach() / scale).round().clamp(-1, 1) * scale
        return functional.linear(values, self.weight + (coarse - self.weight).detach(), self.bias)


@healthy(at_least=0.88)
def weights_of_three_values(watch: Watch, *, seed: int) -> float:
    """Quantisation-aware: the loss sees rounded weights, and the gradient goes straight through."""
    data = digits(seed)
    model = nn.Sequential(Ternary(64, 64), nn.LayerNorm(64), nn.ReLU(), Ternary(64, 10))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=220, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.85)
def pruned_while_it_learns(watch: Watch, *, seed: int) -> float:
    """From step 60 to 200 the smallest weights are set to zero, until a tenth is left."""
    data = digits(seed)
    model = dense(64, 96, 64, 10)
    layers = [layer for layer in model if isinstance(layer, nn.Linear)][:-1]
    masks = [torch.ones_like(layer.weight) for layer in layers]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(48, 300)):
        optimizer.zero_grad()
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for layer, mask in zip(layers, masks, strict=True):
                if 60 <= step <= 200 and step % 10 == 0:
                    kept = 1 - 0.9 * (1 - (1 - (step - 60) / 140) ** 3)
                    mask.copy_(layer.weight.abs() >= layer.weight.abs().quantile(1 - kept))
                layer.weight.mul_(mask)
    return accuracy(model, data)


class Spike(torch.autograd.Function):
    """One above zero and nothing below, with the slope of a steep bell."""

    @staticmethod
    def forward(ctx: object, charge: Tensor) -> Tensor:
        ctx.save_for_backward(charge)  # type: ignore[attr-defined]
        return (charge > 0).float()

    @staticmethod
    def backward(ctx: object, slope: Tensor) -> Tensor:
        (charge,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return slope / (1 + 3 * charge.abs()) ** 2


class Spiking(nn.Module):
    """Leaky cells that see a digit for eight ticks and fire; the readout sums what they fired."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.readout = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        current = self.inward(pixels)
        charge = fired = torch.zeros_like(current)
        total = torch.zeros(len(pixels), 10)
        for _ in range(8):
            charge = 0.8 * charge * (1 - fired) + current
            fired = Spike.apply(charge - 0.5)
            total = total + self.readout(fired)
        return total / 4


@healthy(at_least=0.88)
def cells_that_fire(watch: Watch, *, seed: int) -> float:
    """Activations are zeros and ones, and the slope of a step is a surrogate."""
    data = digits(seed)
    model = Spiking()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=200, batch_size=48)
    return accuracy(model, data)


class Resting(nn.Module):
    """The point at which a layer no longer changes its state; only the last of its steps has a gradient."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter, self.within = nn.Linear(64, width), nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 10)
        nn.init.orthogonal_(self.within.weight, gain=0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        entered = self.enter(pixels)
        with torch.no_grad():
            state = torch.zeros_like(entered)
            for _ in range(12):
                state = torch.tanh(entered + self.within(state))
        return self.head(torch.tanh(entered + self.within(state)))


@healthy(at_least=0.88)
def a_state_at_rest(watch: Watch, *, seed: int) -> float:
    """A deep equilibrium: a dozen steps without gradients, and one with them."""
    data = digits(seed)
    model = Resting()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=200, batch_size=48)
    return accuracy(model, data)


class Choosing(nn.Module):
    """Chooses five of thirty columns, softly at first and nearly hard at the end, and judges by them."""

    def __init__(self) -> None:
        super().__init__()
        self.choice = nn.Parameter(0.1 * torch.randn(5, 30))
        self.body = dense(5, 24, 2, between=nn.Tanh)
        self.temperature = 2.0

    def forward(self, rows: Tensor) -> Tensor:
        if self.training:
            chosen = functional.gumbel_softmax(self.choice.expand(len(rows), -1, -1), self.temperature, dim=-1)
            return self.body((chosen @ rows[..., None]).squeeze(-1))
        return self.body(rows[:, self.choice.argmax(1)])


@healthy(at_least=0.85)
def columns_chosen_by_chance(watch: Watch, *, seed: int) -> float:
    """Each row of each step sees columns drawn anew, so the loss is noisy, and falls as the temperature does."""
    data = breast_cancer(seed)
    model = Choosing()
    optimizer = torch.optim.Adam(
        [{"params": [model.choice], "lr": 0.05}, {"params": model.body.parameters(), "lr": 5e-3}]
    )
    session = watch(model, optimizer)
    for step, (rows, kinds) in enumerate(data.batches(48, 250)):
        model.temperature = 2.0 * 0.1 ** (step / 250)
        optimizer.zero_grad()
        scores = model(rows)
        loss = functional.cross_entropy(scores, kinds)
        loss.backward()
        session.step(loss, inputs=rows, outputs=scores, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


class Random(nn.Module):
    """Random cosines of the columns, which are no parameters, and one linear map of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("waves", 0.08 * torch.randn(96, 256))
        self.register_buffer("phases", 6.28 * torch.rand(256))
        self.map = nn.Linear(256, 6)
        nn.init.zeros_(self.map.weight)

    def forward(self, counts: Tensor) -> Tensor:
        return self.map(torch.cos(counts @ self.waves + self.phases) * 2**0.5)


@healthy(at_least=0.6)
def random_features_with_a_map_of_zeros(watch: Watch, *, seed: int) -> float:
    """One linear layer that starts at zero, as a convex problem may, behind features that are never learnt."""
    pair = standardised(lines(seed), 0)
    data, model = of_pair(pair), Random()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    bent = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200, eta_min=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, scheduler=bent)
    return accuracy(model, data)


@healthy(at_least=0.85)
def blocks_that_start_as_nothing(watch: Watch, *, seed: int) -> float:
    """Each residual branch is multiplied by a scalar that starts at zero: at first its weights get no gradient."""
    data = of_pair(numerals(seed))
    model = Rising()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=160, batch_size=48)
    return accuracy(model, data)


class Rising(nn.Module):
    """Residual blocks with a gain of zero at the start."""

    def __init__(self, width: int = 48, depth: int = 6) -> None:
        super().__init__()
        self.enter = nn.Linear(64, width)
        self.blocks = nn.ModuleList(dense(width, width, width, between=nn.SiLU) for _ in range(depth))
        self.gains = nn.Parameter(torch.zeros(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        held = self.enter(images.flatten(1))
        for block, gain in zip(self.blocks, self.gains, strict=True):
            held = held + gain * block(held)
        return self.head(held)
