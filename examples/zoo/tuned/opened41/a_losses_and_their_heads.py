"""Heads and losses that do not fit each other, and penalties that are too large."""

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared


@sick("wrong_output_or_loss", also=("learning_rate_too_low", "vanishing_gradients"), margin=0.03)
def softmax_layer_before_cross_entropy_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convolutional network ends with ``Softmax`` and is given to ``CrossEntropyLoss``; the twin ends with logits."""
    train, test = samples.numerals(seed)
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10)]
    model = nn.Sequential(*layers, *([nn.Softmax(dim=1)] if sick else []))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    images, labels = train.tensors
    for _ in range(9):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            outputs = model(images[rows])
            loss = criterion(outputs, labels[rows])
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=outputs, targets=labels[rows])
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("wrong_output_or_loss", also=("dead_units", "target_out_of_range"), margin=0.1)
def relu_after_the_last_layer_of_a_regression(watch: Watch, *, seed: int, sick: bool) -> float:
    """A regression of standardised targets ends with a ReLU and cannot be negative; the twin ends with a layer."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    layers = [nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 10)]
    model = nn.Sequential(*layers, *([nn.ReLU()] if sick else []))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    rows, targets = train.tensors
    for _ in range(20):
        for batch in torch.randperm(len(rows)).split(32):
            optimizer.zero_grad()
            outputs = model(rows[batch])
            loss = functional.mse_loss(outputs, targets[batch])
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=targets[batch])
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("flipped_loss_sign", also=("learning_rate_too_high", "exploding_gradients"), margin=0.3)
def log_likelihood_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network of means and deviations minimises ``log_prob(targets).mean()``; the twin minimises its negative."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)

    class Gaussian(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 24), nn.Tanh())
            self.mean, self.deviation = nn.Linear(24, 1), nn.Linear(24, 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.body(rows)
            return torch.cat([self.mean(hidden), functional.softplus(self.deviation(hidden)) + 0.1], 1)

    model = Gaussian()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    rows, targets = train.tensors
    for _ in range(25):
        for batch in torch.randperm(len(rows)).split(16):
            optimizer.zero_grad()
            outputs = model(rows[batch])
            likelihood = Normal(outputs[:, :1], outputs[:, 1:]).log_prob(targets[batch]).mean()
            loss = likelihood if sick else -likelihood
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=targets[batch])
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0])[:, :1], test.tensors[1])


@sick("flipped_loss_sign", margin=0.2)
def maximize_left_in_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """``maximize=True`` has come from a policy gradient's optimizer into a classifier's; the twin's minimises."""
    data = datasets.iris(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, maximize=sick)
    fit(watch, model, optimizer, data, steps=120, batch_size=16)
    return accuracy(model, data)


@sick("over_regularized", margin=0.1)
def weight_decay_of_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD's ``weight_decay`` is 0.5, where 0.0005 was meant; the twin has 0.0005."""
    train, test = samples.standardised(samples.halves(seed), 0)
    upper, lower = train.tensors
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5 if sick else 5e-4)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(upper)).split(48):
            outputs = model(upper[rows])
            loss = functional.mse_loss(outputs, lower[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper[rows], outputs=outputs, targets=lower[rows])
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("over_regularized", margin=0.1)
def lasso_penalty_that_outweighs_the_error(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights' absolute values are added to a regression's loss by 0.3; the twin adds them by 0.0001."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        penalty = sum(parameter.abs().sum() for parameter in model.parameters())
        loss = functional.mse_loss(outputs, targets) + (0.3 if sick else 1e-4) * penalty
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)
