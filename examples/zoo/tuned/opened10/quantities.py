"""Regressions: what a wine, a tumour or a patient measures, from other measurements."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.samples import Pair, explained, standardised

Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def forever(rows: TensorDataset, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields shuffled batches without end."""
    x, y = rows.tensors
    while True:
        for chosen in torch.randperm(len(x)).split(size):
            if len(chosen) == size:
                yield x[chosen], y[chosen]


def regress(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    pair: Pair,
    *,
    steps: int,
    size: int = 24,
    criterion: Criterion = functional.mse_loss,
    scheduler: Any = None,
    penalty: Callable[[nn.Module], torch.Tensor] | None = None,
) -> float:
    """Trains for some steps, with a scheduler that counts epochs, and returns what is explained of other rows."""
    session = watch(model, optimizer)
    an_epoch = len(pair[0]) // size
    for step, (x, y) in enumerate(islice(forever(pair[0], size), steps), 1):
        prediction = model(x)
        loss = criterion(prediction, y)
        if penalty is not None:
            loss = loss + penalty(model)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=x, outputs=prediction, targets=y)
        optimizer.step()
        if step % an_epoch == 0:
            if scheduler is not None:
                scheduler.step()
            with torch.no_grad(), session.validating():
                held_out = functional.mse_loss(model(pair[1].tensors[0]), pair[1].tensors[1])
            session.validation(held_out.item())
    with torch.no_grad():
        return explained(model(pair[1].tensors[0]), pair[1].tensors[1])


def hidden(inputs: int, outputs: int, *, width: int = 32, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns a net with two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, width), act(), nn.Linear(width, width), act(), nn.Linear(width, outputs))


def patients(seed: int) -> Pair:
    """Returns 10 measurements of a patient and the disease's progress a year later, both standardised."""
    data = datasets.diabetes(seed)
    return TensorDataset(data.inputs, data.targets), TensorDataset(data.test_inputs, data.test_targets)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def relu_as_last_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The net ends in a ReLU, and half of the standardised targets are negative."""
    model = hidden(10, 10)
    if sick:
        model.append(nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return regress(watch, model, optimizer, standardised(samples.tumours(seed), 0, 1), steps=250)


@sick("shape_broadcast")
def a_column_minus_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """``((prediction - target) ** 2).mean()`` of a column and a row is over all pairs."""
    pair = standardised(samples.proline(seed), 0, 1)
    model = hidden(12, 1, act=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)

    def error(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ((prediction - target) ** 2).mean()

    train = TensorDataset(pair[0].tensors[0], pair[0].tensors[1][:, 0]) if sick else pair[0]
    session = watch(model, optimizer)
    for x, y in islice(forever(train, 20), 200):
        prediction = model(x)
        loss = error(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=prediction, targets=y)
        optimizer.step()
    with torch.no_grad():
        return explained(model(pair[1].tensors[0]), pair[1].tensors[1])


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def squares_summed_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """The squares of 40 rows and ten columns are summed, at the rate of a mean."""
    model = hidden(10, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def error(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        squares = (prediction - target).square()
        return squares.sum() if sick else squares.mean()

    pair = standardised(samples.tumours(seed), 0, 1)
    return regress(watch, model, optimizer, pair, steps=200, size=40, criterion=error)


@sick("inputs_not_normalized")
def measurements_in_their_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas in the thousands beside fractions, into a net with tanh."""
    raw = samples.tumours(seed)
    pair = standardised(raw, 1) if sick else standardised(raw, 0, 1)
    model = hidden(10, 10, act=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return regress(watch, model, optimizer, pair, steps=250)


@sick("exploding_gradients", also=("learning_rate_too_high",))
def targets_in_the_hundreds(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets from 278 to 1680 under the squared error and SGD: the first gradients are thousands."""
    raw = samples.proline(seed)
    pair = standardised(raw, 0) if sick else standardised(raw, 0, 1)
    model = hidden(12, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    return regress(watch, model, optimizer, pair, steps=150)


@sick("over_regularized")
def lasso_over_all_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tenth of the sum of all weights' sizes is added to the loss."""
    model = hidden(10, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    share = 0.1 if sick else 1e-5

    def penalty(net: nn.Module) -> torch.Tensor:
        return share * torch.stack([weight.abs().sum() for weight in net.parameters()]).sum()

    return regress(watch, model, optimizer, standardised(samples.tumours(seed), 0, 1), steps=250, penalty=penalty)


@sick("poor_initialization")
def a_wide_net_from_a_unit_normal(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights with a deviation of one in layers of 96 units: the first outputs are in the hundreds."""
    model = hidden(10, 1, width=96)
    if sick:
        for weight in model.parameters():
            nn.init.normal_(weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return regress(watch, model, optimizer, patients(seed), steps=120)


@sick("overfitting")
def nobody_stops_it(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns 330 patients by heart; the twin stops when the held-out loss has risen three times."""
    pair = patients(seed)
    model = hidden(10, 1, width=128)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session, best, worse = watch(model, optimizer), float("inf"), 0
    quality = 0.0
    for step, (x, y) in enumerate(islice(forever(pair[0], 32), 400), 1):
        prediction = model(x)
        loss = functional.mse_loss(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=prediction, targets=y)
        optimizer.step()
        if step % 20 == 0:
            with torch.no_grad(), session.validating():
                found = model(pair[1].tensors[0])
            held_out = functional.mse_loss(found, pair[1].tensors[1]).item()
            session.validation(held_out)
            quality, worse = explained(found, pair[1].tensors[1]), worse + (held_out > best)
            best = min(best, held_out)
            if worse >= 2 and not sick and step >= 60:
                break
    return quality


@sick("learning_rate_too_high")
def momentum_of_beta_two(watch: Watch, *, seed: int, sick: bool) -> float:
    """A momentum of 0.999, which is Adam's second beta, makes the rate a thousand times as large."""
    model = hidden(10, 10, act=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.999 if sick else 0.9)
    return regress(watch, model, optimizer, standardised(samples.tumours(seed), 0, 1), steps=200)


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def a_tenth_after_each_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``StepLR(step_size=1)`` with its default gamma of 0.1."""
    model = hidden(10, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1 if sick else 10)
    pair = standardised(samples.tumours(seed), 0, 1)
    return regress(watch, model, optimizer, pair, steps=300, size=20, scheduler=scheduler)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def sixteen_micro_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients of sixteen micro-batches are added up, at a rate for their mean."""
    pair = standardised(samples.tumours(seed), 0, 1)
    model = hidden(10, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    session = watch(model, optimizer)
    for number, (x, y) in enumerate(islice(forever(pair[0], 8), 16 * 80), 1):
        prediction = model(x)
        loss = functional.mse_loss(prediction, y)
        if not sick:
            loss = loss / 16
        loss.backward()
        if number % 16 == 0:
            session.step(loss, inputs=x, outputs=prediction, targets=y)
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        return explained(model(pair[1].tensors[0]), pair[1].tensors[1])


@healthy(at_least=0.25)
def a_noisy_target(watch: Watch, *, seed: int) -> float:
    """A small net with decay, which explains less than half of the patients, as anybody does."""
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    return regress(watch, model, optimizer, patients(seed), steps=120, size=32)


@healthy(at_least=0.35)
def outliers_among_the_targets(watch: Watch, *, seed: int) -> float:
    """One target of thirty is far off; the Huber loss bears it."""
    (x, y), test = (part.tensors for part in standardised(samples.proline(seed), 0, 1))
    far = torch.rand(len(y), 1) < 0.03
    train = TensorDataset(x, torch.where(far, y + 8, y))
    model = hidden(12, 1, width=16, act=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return regress(watch, model, optimizer, (train, TensorDataset(*test)), steps=150, size=16, criterion=nn.HuberLoss())


@healthy(at_least=0.6)
def ten_columns_with_warm_restarts(watch: Watch, *, seed: int) -> float:
    """The rate returns to its start every five epochs."""
    model = hidden(10, 10, width=48, act=nn.GELU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5, eta_min=4e-4)
    pair = standardised(samples.tumours(seed), 0, 1)
    return regress(watch, model, optimizer, pair, steps=300, size=20, scheduler=scheduler)
