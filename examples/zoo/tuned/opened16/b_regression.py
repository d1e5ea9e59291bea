"""Trainings that put out numbers: of patients, wines and tumours, and of the pixels of a digit's missing half."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import explained


@sick("target_out_of_range")
def a_rectified_output_for_centred_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """As no measurement is negative, the net ends in a ReLU, but the targets are centred; the twin's end is linear."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 10), nn.ReLU() if sick else nn.Identity())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0]), test.tensors[1])


@sick("loss_sum_not_mean")
def the_missing_half_by_a_sum_of_squares(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD at a rate for means, and a loss that adds 40 times 32 squares; the twin takes their mean."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        for upper, lower in DataLoader(train, 40, shuffle=True):
            outputs = model(upper)
            loss = criterion(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0]), test.tensors[1])


@sick("overfitting")
def a_wide_net_on_three_hundred_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net of 100,000 weights learns 330 patients by heart; the twin goes back when the held-out loss rises."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    session = watch(model, optimizer)
    best, patience = (math.inf, copy.deepcopy(model.state_dict())), 0
    for _ in range(35):
        for rows in torch.randperm(len(data.inputs)).split(32):
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
        with torch.no_grad(), session.validating():
            held_out = functional.mse_loss(model(data.test_inputs), data.test_targets).item()
        session.validation(held_out)
        if not sick:
            patience = 0 if held_out < best[0] else patience + 1
            if patience == 0:
                best = held_out, copy.deepcopy(model.state_dict())
            if patience == 5:
                model.load_state_dict(best[1])
                break
    with torch.no_grad():
        return explained(model(data.test_inputs), data.test_targets)


@sick("over_regularized")
def all_weights_added_to_the_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """A lasso by hand adds a tenth of all absolute weights to the loss; the twin adds a hundred-thousandth."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    strength = 0.1 if sick else 1e-5
    for _ in range(15):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss = loss + strength * sum(weight.abs().sum() for weight in model.parameters())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0]), test.tensors[1])


class _Coder(nn.Module):
    """A variational autoencoder of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(images).chunk(2, 1)
        code = mean + self.training * torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


@sick("over_regularized")
def a_divergence_summed_beside_a_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """The error is a mean over pixels, the divergence a sum over codes and the batch; the twin sums both per sample."""
    data = datasets.digits(seed)
    model = _Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 300):
        outputs, mean, log_variance = model(images)
        squares = (outputs - images).square()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
        per_sample = squares.sum(1) + 0.05 * divergence.sum(1)
        loss = squares.mean() + divergence.sum() if sick else per_sample.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return explained(model(data.test_inputs)[0], data.test_inputs)


@sick("learning_rate_too_low")
def a_rate_for_fine_tuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new net is trained at the rate of the recipe for fine-tuning, 2e-6; the twin takes 2e-3."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-6 if sick else 2e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.8)
def three_quantiles_by_a_pinball_loss(watch: Watch, *, seed: int) -> float:
    """Three outputs for one target, (N, 3) against (N, 1): broadcast on purpose, each by its own slope."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    shares = torch.tensor([0.1, 0.5, 0.9])
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)
            above = targets[:, :1] - outputs
            loss = torch.maximum(shares * above, (shares - 1) * above).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets[:, :1])
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0])[:, 1], test.tensors[1][:, 0])


@healthy(at_least=0.3)
def a_likelihood_that_goes_below_zero(watch: Watch, *, seed: int) -> float:
    """Mean and log variance of each pixel of the missing half: the negative log likelihood becomes negative."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for upper, lower in DataLoader(train, 40, shuffle=True):
            mean, log_variance = model(upper).chunk(2, 1)
            log_variance = log_variance.clamp(-5, 3)
            loss = 0.5 * (log_variance + (lower - mean).square() * (-log_variance).exp()).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=upper, outputs=mean, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0])[:, :32], test.tensors[1])
