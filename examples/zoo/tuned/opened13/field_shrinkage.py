"""Regularisation that is too strong or missing."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged


@sick("over_regularized", margin=0.1)
def a_share_to_keep_taken_for_one_to_drop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Dropout(0.95)`` was meant to keep 95 % of the units, as in another library; the twin drops 5 %."""
    train, test = samples.numerals(seed)
    drop = 0.95 if sick else 0.05
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(drop), nn.Linear(48, 48), nn.ReLU(), nn.Dropout(drop),
        nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("over_regularized", margin=0.1)
def a_lasso_that_outweighs_the_error(watch: Watch, *, seed: int, sick: bool) -> float:
    """The sum of all weights' magnitudes is added with a factor of 0.1; the twin's factor is 0.0001."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    strength = 0.1 if sick else 1e-4
    session = watch(model, optimizer)
    for _ in range(14):
        for means, worst in DataLoader(train, batch_size=25, shuffle=True):
            outputs = model(means)
            penalty = sum(parameter.abs().sum() for parameter in model.parameters() if parameter.ndim > 1)
            loss = functional.mse_loss(outputs, worst) + strength * penalty
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=means, outputs=outputs, targets=worst)
            optimizer.step()
    return judged(model, test, samples.explained)


class _Variational(nn.Module):
    """A variational autoencoder of digits; in eval mode the code is its mean."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 20))
        self.decoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.Unflatten(1, (1, 8, 8)))

    def encode(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(images).chunk(2, 1)
        return mean, log_variance

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encode(images)
        noise = torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else 0
        return self.decoder(mean + noise)


@sick("over_regularized", margin=0.1)
def a_divergence_summed_beside_a_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """The divergence is summed over the code, the error averaged over pixels; the twin sums both, divided by 64."""
    train, test = samples.numerals(seed)
    model = _Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        model.train()
        for images, _ in DataLoader(train, batch_size=64, shuffle=True):
            mean, log_variance = model.encode(images)
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
            rebuilt = model.decoder(code)
            error = functional.mse_loss(rebuilt, images)
            divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1).mean()
            loss = error + divergence * (1 if sick else 1 / 64)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=rebuilt, targets=images)
            optimizer.step()
    return judged(model, TensorDataset(test.tensors[0], test.tensors[0]), samples.explained)


@sick("overfitting", margin=0.1)
def a_hundred_and_fifty_patients_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net is trained on until it knows its patients by heart; the twin stops and goes back to its best epoch."""
    data = datasets.diabetes(seed)
    rows, targets = data.inputs[:150], data.targets[:150]
    test = TensorDataset(data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, kept, waited = float("inf"), copy.deepcopy(model.state_dict()), 0
    session = watch(model, optimizer)
    for _ in range(39):
        model.train()
        for batch in torch.randperm(len(rows)).split(16):
            outputs = model(rows[batch])
            loss = functional.mse_loss(outputs, targets[batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=targets[batch])
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            validation = functional.mse_loss(model(test.tensors[0]), test.tensors[1]).item()
        session.validation(validation)
        waited += 1
        if validation < best:
            best, kept, waited = validation, copy.deepcopy(model.state_dict()), 0
        if waited == 5 and not sick:
            model.load_state_dict(kept)
            break
    return judged(model, test, samples.explained)


def _cubic(rows: torch.Tensor) -> torch.Tensor:
    """All products of up to three of ten columns (N, 285), each between columns that are standardised."""
    powers = [rows[:, list(chosen)].prod(1) for size in (1, 2, 3) for chosen in _combinations(10, size)]
    return torch.stack(powers, 1)


def _combinations(count: int, size: int) -> list[tuple[int, ...]]:
    found = torch.combinations(torch.arange(count), size, with_replacement=True)
    return [tuple(row) for row in found.tolist()]


@sick("overfitting", margin=0.1)
def a_polynomial_with_a_term_per_patient(watch: Watch, *, seed: int, sick: bool) -> float:
    """A linear model of 285 cubic terms fits 150 patients exactly; the twin's weights decay towards zero."""
    data = datasets.diabetes(seed)
    features, test_features = _cubic(data.inputs.clamp(-2, 2))[:150], _cubic(data.test_inputs.clamp(-2, 2))
    std, mean = torch.std_mean(features, 0)
    features, test_features = (features - mean) / std, (test_features - mean) / std
    targets, test = data.targets[:150], TensorDataset(test_features, data.test_targets)
    model = nn.Linear(285, 1)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 25.0)
    session = watch(model, optimizer)
    for _ in range(70):
        for batch in torch.randperm(len(features)).split(30):
            outputs = model(features[batch])
            loss = functional.mse_loss(outputs, targets[batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features[batch], outputs=outputs, targets=targets[batch])
            optimizer.step()
        with session.validating(), torch.no_grad():
            session.validation(functional.mse_loss(model(test.tensors[0]), test.tensors[1]).item())
    return judged(model, test, samples.explained)
