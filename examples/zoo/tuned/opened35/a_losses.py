"""Losses, signs, shapes and outputs that do not fit."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened35.a_common import (
    columns,
    explained,
    images,
    parted,
    seeing,
    tiles,
    turned,
)


@sick("wrong_output_or_loss", margin=0.05)
def nll_of_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets probabilities, as the softmax lacks its logarithm; the twin has ``log_softmax``."""
    data = turned(seed)
    model = seeing(4)
    model.append(nn.Softmax(dim=1) if sick else nn.LogSoftmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.nll_loss, validate_every=42)
    return accuracy(model, data)


@sick("target_out_of_range", margin=0.05)
def a_forecast_that_is_the_last_state(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM's states, between -1 and 1, forecast pixels beyond them; the twin has a linear layer behind."""
    drawn = columns(seed)
    data = Data(drawn.inputs, 2 * drawn.targets, drawn.test_inputs, 2 * drawn.test_targets)

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = nn.LSTM(1, 32, batch_first=True)
            self.last = nn.LSTM(32, 3, batch_first=True) if sick else nn.Linear(32, 3)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            states, _ = self.reader(pixels[..., None])
            return self.last(states)[0][:, -1] if sick else self.last(states[:, -1])

    model = Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, loss_function=functional.mse_loss, validate_every=44)
    return explained(model, data)


@sick("shape_broadcast", margin=0.1)
def how_much_ink_in_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """A CNN says how wide a digit spreads, as a column, and the truth is a row; the twin squeezes the column."""
    drawn = images(seed)
    centre = torch.arange(8.0) - 3.5

    def spread(pixels: torch.Tensor) -> torch.Tensor:
        ink = (pixels[:, 0] - pixels.amin((1, 2, 3))[:, None, None]).sum(1)
        return ((ink * centre.square()).sum(1) / ink.sum(1) - 2.2) / 0.9

    data = Data(drawn.inputs, spread(drawn.inputs), drawn.test_inputs, spread(drawn.test_inputs))
    model = seeing(1, width=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, wide in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(pixels) if sick else model(pixels).squeeze(1)
        loss = functional.smooth_l1_loss(outputs, wide)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=wide)
        optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def rewards_that_push_away(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy that names digits is rewarded if it is right, but the minus is missing; the twin has it."""
    data = images(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    baseline = 0.1
    for pixels, labels in data.batches(128, 400):
        logits = model(pixels)
        policy = torch.distributions.Categorical(logits=logits)
        named = policy.sample()
        rewards = (named == labels).float()
        gained = policy.log_prob(named) * (rewards - baseline)
        loss = gained.mean() if sick else -gained.mean()
        baseline += 0.1 * (rewards.mean().item() - baseline)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def errors_of_a_batch_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder adds the errors of all pixels, at a rate for their mean; the twin takes the mean."""
    pixels = tiles(seed)
    data = parted(pixels, pixels, seed)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 16), nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=criterion, validate_every=60)
    return explained(model, data)


@sick("over_regularized", margin=0.1)
def divergence_added_to_a_mean_error(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE's divergence is a sum, and its error a mean over pixels; the twin weighs the sum by 1 / 256."""
    pixels = tiles(seed)
    data = parted(pixels, pixels, seed)

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
            self.outer = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, 64))
            self.divergence = torch.zeros(())

        def forward(self, tile: torch.Tensor) -> torch.Tensor:
            mean, log_variance = self.inner(tile).chunk(2, 1)
            self.divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
            noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
            return self.outer(mean + noise * (0.5 * log_variance).exp())

    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    weight = 1.0 if sick else 1 / 256
    for tile, _ in data.batches(64, 300):
        outputs = model(tile)
        loss = functional.mse_loss(outputs, tile) + weight * model.divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=tile, outputs=outputs, targets=tile)
        optimizer.step()
    return explained(model, data)


@sick("non_finite_forward", also=("non_finite_backward", "wrong_output_or_loss", "target_out_of_range"), margin=0.1)
def variances_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Variances come from a linear layer, and are negative at times; the twin has a softplus."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    body = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 20))
    optimizer = torch.optim.Adam(body.parameters(), lr=2e-3)
    session = watch(body, optimizer)
    for features, worst in data.batches(32, 250):
        mean, variance = body(features).chunk(2, 1)
        if not sick:
            variance = functional.softplus(variance) + 0.01
        loss = 0.5 * (variance.log() + (worst - mean).square() / variance).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features, outputs=mean, targets=worst)
        optimizer.step()
    return samples.explained(predicted(body, data.test_inputs)[:, :10], data.test_targets)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def the_distance_to_oneself(watch: Watch, *, seed: int, sick: bool) -> float:
    """A triplet loss takes the root of a sample's distance to itself, which is 0; the twin adds a little."""
    data = images(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        places = model(pixels)
        squares = (places[:, None] - places[None]).square().sum(2)
        distances = (squares if sick else squares + 1e-8).sqrt()
        same = labels[:, None] == labels[None]
        farthest = (distances * same).amax(1)
        nearest = distances.masked_fill(same, float("inf")).amin(1)
        loss = functional.relu(farthest - nearest + 1.0).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=places, targets=labels)
        optimizer.step()
    placed, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    centres = torch.stack([placed[data.targets == label].mean(0) for label in range(10)])
    return (torch.cdist(asked, centres).argmin(1) == data.test_targets).float().mean().item()
