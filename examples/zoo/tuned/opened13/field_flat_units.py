"""Units that start in a flat part of their activation, and gradients that vanish or explode on their way."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, springs, throws


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def the_bias_of_a_rare_class_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loop sets the bias of a rare class, -4.6, in all layers; the twin sets it in the last layer alone."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 10))
    layers = [module for module in model if isinstance(module, nn.Linear)]
    for layer in layers if sick else layers[-1:]:
        nn.init.constant_(layer.bias, -4.6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.binary_cross_entropy_with_logits(logits, functional.one_hot(labels, 10).float())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=functional.one_hot(labels, 10).float())
            optimizer.step()
    return judged(model, test)


class _Steep(nn.Module):
    """Features, hard decisions of a sigmoid with a temperature, and a linear reading of them."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self.features, self.decisions, self.reading = nn.Linear(10, 48), nn.Linear(48, 48), nn.Linear(48, 10)
        self.gate = nn.Sigmoid()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.gate(self.features(rows) / self.temperature) - 0.5
        return self.reading(self.gate(self.decisions(2 * hidden) / self.temperature) - 0.5)


@sick("saturated_units", margin=0.05)
def a_temperature_that_makes_gates_hard(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gates' temperature is 0.01, so that sigmoids are 0 or 1 and pass no gradient; the twin's is 0.5."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = _Steep(0.01 if sick else 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for means, worst in DataLoader(train, batch_size=32, shuffle=True):
            outputs = model(means)
            loss = functional.mse_loss(outputs, worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=means, outputs=outputs, targets=worst)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("vanishing_gradients", margin=0.1)
def ten_logistic_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten layers with sigmoids pass on a quarter of the gradient each at best; the twin has ReLUs instead."""
    train, test = samples.standardised(throws(seed), 0, 1)
    layers: list[nn.Module] = [nn.Linear(3, 40)]
    for _ in range(9):
        layers += [nn.Sigmoid() if sick else nn.ReLU(), nn.Linear(40, 40)]
    model = nn.Sequential(*layers, nn.Sigmoid() if sick else nn.ReLU(), nn.Linear(40, 1))
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="sigmoid" if sick else "relu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.004, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, distances in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, distances)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=distances)
            optimizer.step()
    return judged(model, test, samples.explained)


class _Refined(nn.Module):
    """A state that one block refines again and again; the block's result replaces or is blended into the state."""

    def __init__(self, gain: float, rounds: int = 14) -> None:
        super().__init__()
        self.gain, self.rounds = gain, rounds
        self.into, self.block, self.out = nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        state = self.into(rows)
        for _ in range(self.rounds):
            state = state + self.gain * functional.relu(self.block(state))
        return self.out(state)


@sick("exploding_gradients", also=("learning_rate_too_high",), margin=0.1)
def refined_fourteen_times_without_a_factor(watch: Watch, *, seed: int, sick: bool) -> float:
    """One block is added to the state fourteen times, and grows it each time; the twin adds a fourteenth of it."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = _Refined(0.7 if sick else 0.7 / 14)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(14):
        for rows, places in DataLoader(TensorDataset(*train.tensors), batch_size=50, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, places)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=places)
            optimizer.step()
    return judged(model, test, samples.explained)
