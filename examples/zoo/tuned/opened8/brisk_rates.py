"""Steps that are too large: rates from other optimizers, batches and formulas."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import breast_cancer, digits
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.samples import lines, numerals, standardised
from examples.zoo.tuned.opened8.frames import Factors, Neighbours, dense, plain_convolutions
from examples.zoo.tuned.opened8.stores import of_pair, usage


class Lion(torch.optim.Optimizer):
    """Moves every weight by the rate, in the direction of the sign of a mixture of gradient and momentum."""

    def __init__(self, params, lr: float, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> None:  # type: ignore[no-untyped-def]
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):  # type: ignore[no-untyped-def]
        """Takes one step."""
        for group in self.param_groups:
            first, second = group["betas"]
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.sub_((first * mean + (1 - first) * weight.grad).sign_(), alpha=group["lr"])
                mean.lerp_(weight.grad, 1 - second)


@sick("learning_rate_too_high")
def lion_at_the_rate_of_momentum(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was exchanged for one that moves by signs, and the rate of SGD stayed."""
    data = of_pair(standardised(lines(seed), 0))
    model = dense(96, 64, 48, 6)
    optimizer = Lion(model.parameters(), lr=0.1 if sick else 5e-4, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=220, batch_size=48)
    return accuracy(model, data)


@sick("learning_rate_too_high")
def ramp_without_a_roof(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's factor is step / 25, and nothing holds it at one."""
    data = digits(seed)
    model = dense(64, 64, 64, 10, between=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    ramp = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (step + 1) / 25 if sick else min(1.0, (step + 1) / 25)
    )
    fit(watch, model, optimizer, data, steps=350, scheduler=ramp)
    return accuracy(model, data)


@sick("learning_rate_too_high")
def the_steepest_point_missed_on_the_curve(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate of a range test is read where the loss began to rise, not where it fell fastest."""
    data = of_pair(numerals(seed))
    model = plain_convolutions(12, depth=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.2 if sick else 0.06, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for images, labels in data.batches(48, 150):
        scores = model(images)
        loss = functional.cross_entropy(scores, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=images, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_high")
def the_batch_shrunk_and_the_rate_did_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch of 256 did not fit, so it became four; the rate was tuned for the large one."""
    data = breast_cancer(seed)
    model = dense(30, 32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0 if sick else 5e-3, momentum=0.9)
    fit(watch, model, optimizer, data, steps=400, batch_size=4)
    return accuracy(model, data)


@sick("learning_rate_too_high")
def momentum_of_a_long_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """0.99, as for thousands of epochs, multiplies the rate by a hundred instead of ten."""
    data = digits(seed)
    model = Neighbours()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15 if sick else 0.05, momentum=0.99 if sick else 0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(32, 120):
        optimizer.zero_grad()
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_high")
def factors_that_jump(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows of sparse tables move by a rate of one, because few of them move in each step."""
    data = usage(seed)
    model = Factors(sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=1.0 if sick else 0.02)
    fit(watch, model, optimizer, data, steps=250, batch_size=128, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("learning_rate_too_high")
def one_cycle_with_its_peak_for_a_normalised_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """A peak of 3, as in super-convergence, on a net that has no batch norm."""
    data = breast_cancer(seed)
    model = dense(30, 32, 32, 2, between=nn.ELU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3.0 if sick else 0.05, total_steps=200)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=cycle)
    return accuracy(model, data)
