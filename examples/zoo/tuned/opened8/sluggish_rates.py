"""Steps that are too small: hidden divisions, ramps without an end, and constants of other recipes."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits, wine
from examples.zoo.loops import accuracy, fit
from examples.zoo.samples import lines, numerals, standardised
from examples.zoo.tuned.opened8.frames import Neighbours, Twofold, by_position, dense, plain_convolutions
from examples.zoo.tuned.opened8.stores import loader, of_pair, tagged


class Lars(torch.optim.Optimizer):
    """Scales each layer's step by the ratio of its weights' norm to its gradient's, times a coefficient."""

    def __init__(self, params, lr: float, momentum: float, trust: float) -> None:  # type: ignore[no-untyped-def]
        super().__init__(params, {"lr": lr, "momentum": momentum, "trust": trust})

    @torch.no_grad()
    def step(self, closure=None):  # type: ignore[no-untyped-def]
        """Takes one step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                norm, slope = weight.norm(), weight.grad.norm()
                ratio = group["trust"] * norm / (slope + 1e-9) if weight.ndim > 1 and norm > 0 else 1.0
                pace = self.state[weight].setdefault("pace", torch.zeros_like(weight))
                pace.mul_(group["momentum"]).add_(weight.grad * ratio, alpha=group["lr"])
                weight.sub_(pace)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def an_epsilon_of_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam's epsilon from a recipe for Inception outweighs the root of every squared gradient."""
    data = digits(seed)
    model = Neighbours()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, eps=1.0 if sick else 1e-8)
    fit(watch, model, optimizer, data, steps=110, batch_size=32)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def a_ramp_of_ten_thousand_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up of a long pretraining, for a training of 100 steps, which ends on the first hundredth of it."""
    data = tagged(seed, length=12)
    model = Twofold(12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    ramp = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=10_000 if sick else 20)
    fit(watch, model, optimizer, data, steps=100, batch_size=16, loss_function=by_position, scheduler=ramp)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def a_schedule_built_in_every_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The scheduler's line stands inside the loop over epochs, so its ramp of 400 steps begins anew each time."""
    pair = standardised(lines(seed), 0)
    data, model = of_pair(pair), dense(96, 48, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def scheduler() -> torch.optim.lr_scheduler.LambdaLR:
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, ((step + 1) / 100) ** 2.0))

    session = watch(model, optimizer)
    schedule = scheduler()
    for _ in range(40):
        if sick:
            schedule = scheduler()
        for counts, files in loader(pair, 128):
            optimizer.zero_grad()
            scores = model(counts)
            loss = functional.cross_entropy(scores, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=scores, targets=files)
            optimizer.step()
            schedule.step()
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def a_trust_of_a_thousandth_under_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """LARS moves a layer by rate times coefficient of its norm; with 1e-3 for both, that is a millionth."""
    data = of_pair(numerals(seed))
    model = plain_convolutions(12, depth=2)
    optimizer = Lars(model.parameters(), lr=1e-3 if sick else 8.0, momentum=0.9, trust=1e-3)
    if not sick:
        bent = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=15)
    fit(watch, model, optimizer, data, steps=140, batch_size=64, scheduler=None if sick else bent)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",))
def layers_slowed_by_their_depth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each layer has a tenth of the rate of the next one, as in fine-tuning, and so has the head."""
    data = wine(seed)
    model = dense(13, 24, 24, 24, 3)
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    factors = [0.1 ** (len(layers) - index) for index in range(len(layers))] if sick else [1.0] * len(layers)
    optimizer = torch.optim.Adam(
        [{"params": one.parameters(), "lr": 2e-3 * by} for one, by in zip(layers, factors, strict=True)]
    )
    fit(watch, model, optimizer, data, steps=90, batch_size=32)
    return accuracy(model, data)
