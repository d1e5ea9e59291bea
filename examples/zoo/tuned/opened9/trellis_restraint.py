"""Too little restraint, too much of it, and trainings that end too soon or start with a rate that has ended."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.distributions import Categorical
from torch.utils.data import TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import (
    checked,
    flat_numerals,
    ladled,
    layers,
    right,
    served,
    share,
    simmered,
)  # fmt: skip


@sick("overfitting", margin=0.1)
def all_products_of_three_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of ten columns, all products of up to three are made: as many features as patients, under a linear model."""
    data = datasets.diabetes(seed)

    def products(x: Tensor) -> Tensor:
        pairs = torch.stack([x[:, i] * x[:, j] for i in range(10) for j in range(i, 10)], 1)
        threes = torch.cat([pairs * x[:, k : k + 1] for k in range(10)], 1)
        return torch.cat([x, pairs, threes], 1) if sick else x

    train = TensorDataset(products(data.inputs), data.targets)
    test = TensorDataset(products(data.test_inputs), data.test_targets)
    train, test = samples.standardised((train, test), 0)
    model = nn.Linear(train.tensors[0].shape[1], 1)
    nn.init.zeros_(model.weight)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0 if sick else 0.1)
    schedule = simmered(optimizer, 360)
    session = watch(model, optimizer)
    for step, (x, y) in enumerate(ladled(train, 64, 360), 1):
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        if step % 30 == 0:
            with session.validating():
                session.validation(F.mse_loss(served(model, test.tensors[0]), test.tensors[1]).item())
    return share(model, test)


@sick("over_regularized")
def weights_held_in_a_tiny_ball(watch: Watch, *, seed: int, sick: bool) -> float:
    """A constraint brings each unit's weights back to a norm of 0.05 after each step; it was to be 3."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = layers(10, 32, 10)
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    schedule = simmered(optimizer, 240)
    session = watch(model, optimizer)
    for x, y in ladled(train, 32, 240):
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for layer in (model[0], model[2]):
                layer.weight.copy_(torch.renorm(layer.weight, 2, 0, 0.05 if sick else 3.0))
    return share(model, test)


@sick("over_regularized")
def a_bonus_for_entropy_that_wins(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy names digits for a reward of 1, and a bonus of 2 for its entropy keeps it from ever deciding.

    Quality: the probability of the right digit.
    """
    train, test = flat_numerals(seed)
    model = layers(64, 48, 10)
    optimizer = optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.02)
    schedule = simmered(optimizer, 300)
    session = watch(model, optimizer)
    for x, y in ladled(train, 96, 300):
        policy = Categorical(logits=model(x))
        named = policy.sample()
        reward = (named == y).float()
        loss = -(policy.log_prob(named) * (reward - reward.mean())).mean()
        loss = loss - (2.0 if sick else 0.01) * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x)
        optimizer.step()
        schedule.step()
    chances = served(model, test.tensors[0]).softmax(1)
    return chances.gather(1, test.tensors[1][:, None]).mean().item()


@sick("stopped_too_early")
def divided_by_the_accumulation_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """The number of steps is divided by the five micro-batches of a step where it counts steps already."""
    train, test = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.015, momentum=0.9)
    steps = 320
    session = watch(model, optimizer)
    batches = ladled(train, 12, 5 * steps)
    check = checked(model, test)
    for step in range(1, (steps // 5 if sick else steps) + 1):
        optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(5):
            x, y = next(batches)
            loss = F.cross_entropy(model(x), y) / 5
            loss.backward()
            total += loss.detach()
        session.step(total)
        optimizer.step()
        if step % 20 == 0:
            check(session)
    return right(model, test)


@sick("stopped_too_early")
def the_goal_of_a_harder_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """A callback ends the training when its goal is reached: an explained share of 0.25, left from a harder table."""
    train, test = samples.standardised(samples.halves(seed), 0, 1)
    model = layers(32, 64, 32)
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    schedule = simmered(optimizer, 400)
    session = watch(model, optimizer)
    for step, (x, y) in enumerate(ladled(train, 32, 400), 1):
        out = model(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        if step % 10 == 0:
            with session.validating():
                session.validation(F.mse_loss(served(model, test.tensors[0]), test.tensors[1]).item())
            if sick and step >= 60 and share(model, test) > 0.25:
                break
    return share(model, test)
