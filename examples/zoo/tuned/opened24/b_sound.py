"""Sound trainings that look odd: tables, series, text and physics."""

import copy

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened24.b_sources import CharacterModel, Factors, Forecaster, Tagger, load, ratings, tags


@healthy(at_least=0.85)
def teacher_forcing_that_fades(watch: Watch, *, seed: int) -> float:
    """Scheduled sampling: a cell is fed the truth at first and its own forecasts later, so the loss may rise."""
    data = load(seed, horizon=6, count=700)

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.cell, self.out = nn.GRU(1, 24, batch_first=True), nn.GRUCell(1, 24), nn.Linear(24, 1)
            self.forced = 0.0

        def forward(self, windows: torch.Tensor, truth: torch.Tensor | None = None) -> torch.Tensor:
            state, last, found = self.rnn(windows)[1][0], windows[:, -1], []
            for step in range(6):
                state = self.cell(last, state)
                found.append(self.out(state))
                forced = truth is not None and torch.rand(()) < self.forced
                last = truth[:, step : step + 1] if truth is not None and forced else found[-1]
            return torch.cat(found, 1)

    model = Steps()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step, (windows, values) in enumerate(data.batches(32, 220)):
        model.forced = max(0.0, 1 - step / 120)
        optimizer.zero_grad()
        outputs = model(windows, values)
        loss = functional.mse_loss(outputs, values)
        loss.backward()
        session.step(loss, inputs=windows, outputs=outputs, targets=values)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return r_squared(model, data)


@healthy(at_least=0.6)
def vectors_with_sparse_gradients(watch: Watch, *, seed: int) -> float:
    """Tables of vectors have sparse gradients under ``SparseAdam``, and most rows get none in a step."""
    data = ratings(seed)
    model = Factors()
    for table in (model.users, model.items, model.user_bias, model.item_bias):
        table.sparse = True
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
    fit(watch, model, optimizer, data, steps=400, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@healthy(at_least=0.85)
def a_likelihood_that_falls_below_zero(watch: Watch, *, seed: int) -> float:
    """Mean and deviation of a forecast are learnt by the likelihood of a density, whose loss is negative in the end."""
    data = load(seed)
    model = Forecaster(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for windows, values in data.batches(64, 250):
        optimizer.zero_grad()
        outputs = model(windows)
        mean, spread = outputs.split(1, 1)
        loss = -Normal(mean, functional.softplus(spread) + 1e-3).log_prob(values).mean()
        loss.backward()
        session.step(loss, inputs=windows, outputs=outputs, targets=values)
        optimizer.step()
    error = (predicted(model, data.test_inputs)[:, :1] - data.test_targets).square().mean()
    return (1 - error / data.test_targets.var()).item()


@healthy(at_least=0.3)
def three_restarts_of_a_cosine(watch: Watch, *, seed: int) -> float:
    """A model of characters with warm restarts, whose loss jumps at each of them, and smoothed labels."""
    data = datasets.text(seed, length=24)
    model = CharacterModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 80)

    def loss_function(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten(), label_smoothing=0.1)

    fit(watch, model, optimizer, data, steps=240, batch_size=32, loss_function=loss_function, scheduler=schedule)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def most_places_are_not_to_be_tagged(watch: Watch, *, seed: int) -> float:
    """Nine places of ten are told to be ignored by -100, as for parts of words, and the others are learnt."""
    data = tags(seed)
    kept = torch.rand(data.targets.shape, generator=torch.Generator().manual_seed(seed)) < 0.1
    data = Data(data.inputs, torch.where(kept, data.targets, -100), data.test_inputs, data.test_targets)
    model = Tagger(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_function(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)

    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.8)
def a_few_new_rows_beside_a_frozen_body(watch: Watch, *, seed: int) -> float:
    """Matrices of low rank, one of them zero at first, are learnt beside frozen ones for digits that are inverted."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    first = torch.optim.Adam(body.parameters(), lr=5e-3)
    for pixels, labels in data.batches(64, 150):
        first.zero_grad()
        functional.cross_entropy(body(2 * pixels - 0.6), labels).backward()
        first.step()

    class Beside(nn.Module):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__()
            self.layer = copy.deepcopy(layer).requires_grad_(False)
            self.down = nn.Parameter(torch.randn(8, layer.in_features) / layer.in_features**0.5)
            self.up = nn.Parameter(torch.zeros(layer.out_features, 8))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.layer(inputs) + 2 * inputs @ self.down.T @ self.up.T

    data = Data(0.6 - 2 * data.inputs, data.targets, 0.6 - 2 * data.test_inputs, data.test_targets)
    model = nn.Sequential(Beside(body[0]), nn.ReLU(), Beside(body[2]))
    optimizer = torch.optim.AdamW([values for values in model.parameters() if values.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.35)
def targets_with_much_noise_and_a_median(watch: Watch, *, seed: int) -> float:
    """Patients' progress has noise that no model explains, and is fit by absolute errors with dropout."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Dropout(0.2), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.l1_loss)
    return r_squared(model, data)


@healthy(at_least=0.9)
def an_equation_without_any_data(watch: Watch, *, seed: int) -> float:
    """A decaying swing is found by its differential equation alone, at new points in each step, with no targets."""
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    begin = torch.tensor([[0.0]], requires_grad=True)
    for _ in range(400):
        times = (3 * torch.rand(64, 1)).requires_grad_()
        optimizer.zero_grad()
        place = model(times)
        speed = torch.autograd.grad(place.sum(), times, create_graph=True)[0]
        change = torch.autograd.grad(speed.sum(), times, create_graph=True)[0]
        start = model(begin)
        push = torch.autograd.grad(start.sum(), begin, create_graph=True)[0]
        residual = (change + 0.4 * speed + 4 * place).square().mean()
        loss = 0.1 * residual + (start - 1).square().mean() + push.square().mean()
        loss.backward()
        session.step(loss, inputs=times, outputs=place)
        optimizer.step()
    times = torch.linspace(0, 3, 100)[:, None]
    rate = (4 - 0.04) ** 0.5
    truth = torch.exp(-0.2 * times) * ((rate * times).cos() + 0.2 / rate * (rate * times).sin())
    return samples.explained(predicted(model, times), truth)
