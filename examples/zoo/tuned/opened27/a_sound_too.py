"""More sound trainings: uncertain forecasts, quantiles with restarts, weighed tasks, and a growing horizon."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened27.a_customers import Tasks
from examples.zoo.tuned.opened27.a_loads import Dilated, States
from examples.zoo.tuned.opened27.a_stock import signals
from examples.zoo.tuned.opened27.a_tables import concordance, lives, partial_likelihood


@healthy(at_least=0.85)
def a_forecast_that_says_how_sure_it_is(watch: Watch, *, seed: int) -> float:
    """DeepAR: a GRU gives a mean and a variance, and the likelihood takes the loss below 0. Quality: R² of means."""
    train, test = signals(seed, length=24)
    model = States(nn.GRU(1, 24, batch_first=True), outputs=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for _ in range(12):
        for windows, following in DataLoader(train, 32, shuffle=True):
            outputs = model(windows)
            variance = functional.softplus(outputs[:, 1:]) + 1e-3
            loss = functional.gaussian_nll_loss(outputs[:, :1], following, variance)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            session.step(loss, inputs=windows, outputs=outputs, targets=following)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, :1], test.tensors[1])


@healthy(at_least=0.85)
def three_quantiles_and_warm_restarts(watch: Watch, *, seed: int) -> float:
    """A TCN gives three quantiles by the pinball loss, and the rate starts again twice. Quality: R² of medians."""
    train, test = signals(seed, length=32)
    model = Dilated(outputs=3)
    levels = torch.tensor([0.1, 0.5, 0.9])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 72, eta_min=1e-4)
    session = watch(model, optimizer)
    for _ in range(12):
        for windows, following in DataLoader(train, 32, shuffle=True):
            outputs = model(windows)
            error = following - outputs
            loss = torch.maximum(levels * error, (levels - 1) * error).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=windows, outputs=outputs, targets=following)
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, 1:2], test.tensors[1])


class Weighed(nn.Module):
    """Three tasks, and how uncertain each of them is."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks, self.uncertainty = Tasks(nn.ReLU()), nn.Parameter(torch.zeros(3))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.tasks(pixels)


@healthy(at_least=0.93)
def tasks_weighed_by_their_uncertainty(watch: Watch, *, seed: int) -> float:
    """Kendall's weights of three tasks are learned, and take their sum below 0. Quality: the accuracy of numbers."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(), data.inputs.std()
    model = Weighed()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 250):
        pixels = (pixels - mean) / std
        number, parity, ink = model(pixels)
        losses = torch.stack(
            [
                functional.cross_entropy(number, labels),
                functional.binary_cross_entropy_with_logits(parity, (labels % 2).float()),
                functional.mse_loss(ink, 4 * pixels.mean(1)),
            ]
        )
        loss = ((-model.uncertainty).exp() * losses + 0.5 * model.uncertainty).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=number, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model((data.test_inputs - mean) / std)[0], data.test_targets)


@healthy(at_least=0.85)
def a_horizon_that_grows(watch: Watch, *, seed: int) -> float:
    """A curriculum: one hour ahead at first, and up to eight, so that the loss jumps up. Quality: R² of all eight."""
    train, test = signals(seed, length=32, ahead=8)
    model = Dilated(outputs=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for epoch in range(14):
        ahead = min(8, 1 + epoch)
        for windows, following in DataLoader(train, 32, shuffle=True):
            outputs = model(windows)[:, :ahead]
            loss = functional.mse_loss(outputs, following[:, :ahead])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=windows, outputs=outputs, targets=following[:, :ahead])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.7)
def few_deaths_in_a_batch(watch: Watch, *, seed: int) -> float:
    """Cox's likelihood of batches of 96 stays near its start, as much is chance. Quality: concordance."""
    train, test = lives(seed, raw=False)
    model = nn.Linear(30, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(30):
        for rows, time, seen in DataLoader(train, 96, shuffle=True, drop_last=True):
            risk = model(rows)[:, 0]
            loss = partial_likelihood(risk, time, seen)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=risk, targets=time)
            optimizer.step()
    with torch.no_grad():
        return concordance(model(test.tensors[0])[:, 0], *test.tensors[1:])
