"""Sound trainings whose steps look odd: other geometries, weights that are put elsewhere, noise, limits, and hints."""

import copy
import math

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, diabetes, digits
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.samples import numerals
from examples.zoo.tuned.opened8.frames import dense
from examples.zoo.tuned.opened8.sluggish_rates import Lars
from examples.zoo.tuned.opened8.stores import of_pair


class Muon(torch.optim.Optimizer):
    """Moves each matrix along the nearest orthogonal one to its momentum, and vectors by their signs."""

    def __init__(self, params, lr: float, momentum: float = 0.9) -> None:  # type: ignore[no-untyped-def]
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):  # type: ignore[no-untyped-def]
        """Takes one step."""
        for group in self.param_groups:
            for weight in group["params"]:
                pace = self.state[weight].setdefault("pace", torch.zeros_like(weight))
                pace.mul_(group["momentum"]).add_(weight.grad)
                if weight.ndim < 2:
                    weight.sub_(pace.sign(), alpha=0.1 * group["lr"])
                    continue
                turned = pace / (pace.norm() + 1e-7)
                for _ in range(6):
                    turned = 1.5 * turned - 0.5 * turned @ turned.T @ turned
                weight.sub_(turned, alpha=group["lr"])


@healthy(at_least=0.88)
def matrices_that_turn(watch: Watch, *, seed: int) -> float:
    """The size of a step does not depend on the gradient's, and all directions of a matrix move alike."""
    data = digits(seed)
    model = dense(64, 48, 48, 10)
    optimizer = Muon(model.parameters(), lr=0.05)
    line = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=180)
    fit(watch, model, optimizer, data, steps=180, batch_size=64, scheduler=line)
    return accuracy(model, data)


@healthy(at_least=0.8)
def all_rows_and_a_ratio_for_each_layer(watch: Watch, *, seed: int) -> float:
    """LARS with a rate of six and a ramp, over nearly all rows in each step."""
    data = digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = Lars(model.parameters(), lr=6.0, momentum=0.9, trust=3e-3)
    pace = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 15) * 0.5 * (1 + math.cos(math.pi * step / 90))
    )
    fit(watch, model, optimizer, data, steps=90, batch_size=1348, scheduler=pace)
    return accuracy(model, data)


@healthy(at_least=0.85)
def five_steps_forth_and_half_the_way_back(watch: Watch, *, seed: int) -> float:
    """Lookahead: every fifth step the weights return half of the way to where they were."""
    data = of_pair(numerals(seed))
    model = nn.Sequential(nn.Flatten(), dense(64, 64, 10))
    slow = [weight.detach().clone() for weight in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(48, 180), 1):
        optimizer.zero_grad()
        scores = model(images)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=scores, targets=labels)
        optimizer.step()
        if step % 5 == 0:
            with torch.no_grad():
                for kept, weight in zip(slow, model.parameters(), strict=True):
                    weight.copy_(kept.lerp_(weight, 0.5))
    return accuracy(model, data)


@healthy(at_least=0.75)
def three_wards_that_share_weights_alone(watch: Watch, *, seed: int) -> float:
    """Federated averaging: three nets see rows of their own, and are made equal every ten steps."""
    data = digits(seed)
    parts = [Data(*(column[index::3] for column in (data.inputs, data.targets)), data.test_inputs, data.test_targets)
             for index in range(3)]  # fmt: skip
    first = dense(64, 48, 10)
    models = [copy.deepcopy(first) for _ in parts]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.2) for model in models]
    sessions = [watch(model, optimizer) for model, optimizer in zip(models, optimizers, strict=True)]
    streams = [part.batches(32, 180) for part in parts]
    for step in range(1, 181):
        for model, optimizer, session, stream in zip(models, optimizers, sessions, streams, strict=True):
            pixels, labels = next(stream)
            optimizer.zero_grad()
            scores = model(pixels)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=scores, targets=labels)
            optimizer.step()
        if step % 10 == 0:
            with torch.no_grad():
                for weights in zip(*(model.parameters() for model in models), strict=True):
                    mean = torch.stack(list(weights)).mean(0)
                    for weight in weights:
                        weight.copy_(mean)
    return accuracy(models[0], data)


@healthy(at_least=0.75)
def rows_that_stay_private(watch: Watch, *, seed: int) -> float:
    """Each row's gradient is clipped to one, always, and noise is added to the mean."""
    data = digits(seed)
    model = dense(64, 32, 10, between=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)

    def loss_of_one(weights: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(model, weights, (row[None],)), label[None])

    of_each = vmap(grad(loss_of_one), in_dims=(None, 0, 0))
    session = watch(model, optimizer)
    for pixels, labels in data.batches(128, 120):
        optimizer.zero_grad()
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        loss.backward()
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        each = of_each(weights, pixels, labels)
        norms = torch.stack([slope.flatten(1).norm(dim=1) for slope in each.values()]).norm(dim=0)
        limit = (1.0 / norms).clamp(max=1.0)
        for name, weight in model.named_parameters():
            clipped = torch.einsum("n,n...->...", limit, each[name])
            weight.grad = (clipped + 0.5 * torch.randn_like(weight)) / len(pixels)
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def hints_from_the_middle_of_a_larger_net(watch: Watch, *, seed: int) -> float:
    """A narrow net is first drawn to a trained net's hidden layer, and then to its soft answers as well."""
    data = digits(seed)
    teacher, pupil = dense(64, 128, 10), nn.ModuleDict(
        {"body": nn.Linear(64, 24), "guess": nn.Linear(24, 128), "head": nn.Linear(24, 10)}
    )  # fmt: skip
    tutor = torch.optim.Adam(teacher.parameters(), lr=4e-3)
    for pixels, labels in data.batches(64, 120):
        tutor.zero_grad()
        functional.cross_entropy(teacher(pixels), labels).backward()
        tutor.step()
    teacher.requires_grad_(False)
    optimizer = torch.optim.Adam(pupil.parameters(), lr=5e-3)
    session = watch(pupil, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(64, 240)):
        optimizer.zero_grad()
        held = functional.relu(pupil["body"](pixels))
        hidden = teacher[:2](pixels)
        scores, soft = pupil["head"](held), functional.softmax(teacher[2](hidden) / 4, 1)
        loss = functional.mse_loss(pupil["guess"](held), hidden)
        share = min(1.0, step / 80)
        loss = loss + share * 16 * functional.kl_div(functional.log_softmax(scores / 4, 1), soft, reduction="batchmean")
        loss = loss + 0.1 * functional.cross_entropy(scores, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    with torch.no_grad():
        scores = pupil["head"](functional.relu(pupil["body"](data.test_inputs)))
    return (scores.argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.35)
def a_ridge_by_steps_with_averaged_weights(watch: Watch, *, seed: int) -> float:
    """A linear regression with a rate that stays: the last weights tremble, and their average is what is used."""
    data = diabetes(seed)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.03, t0=60, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=16, loss_function=functional.mse_loss)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(optimizer.state[weight]["ax"])
    return r_squared(model, data)
