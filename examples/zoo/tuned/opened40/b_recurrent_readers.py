"""Recurrent networks over lines of digits, series of a photograph, and names."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened40.b_provisions import series, spelt, strokes


class Recurrent(nn.Module):
    """A recurrent layer, and a linear one on its last state."""

    def __init__(self, layer: nn.Module, outputs: int) -> None:
        super().__init__()
        self.layer: Any = layer
        self.head = nn.Linear(int(self.layer.hidden_size), outputs)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Returns the head's outputs."""
        return self.head(self.layer(sequences)[0][:, -1])


class Speller(nn.Module):
    """Embedded letters, a recurrent layer over them, and the mean of its states."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
        self.states = nn.GRU(16, width, batch_first=True)
        self.head = nn.Linear(width, len(samples.SCRIPTS))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        """Returns a logit for each script."""
        return self.head(functional.dropout(self.states(self.letters(names))[0].mean(1), 0.2, self.training))


@sick("learning_rate_too_high", also=("saturated_units",), margin=0.1)
def adam_at_the_rate_of_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM's SGD was replaced by Adam, and its rate of 0.3 stayed; the twin takes 0.005."""
    data = strokes(seed)
    model = Recurrent(nn.LSTM(8, 32, batch_first=True), 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 0.005)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zeroed_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands in the loop over epochs, above the one over batches; the twin calls it for each batch."""
    data = series(seed)
    model = Recurrent(nn.GRU(1, 24, batch_first=True), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32, shuffle=True)
    for _ in range(6):
        optimizer.zero_grad()
        for windows, coming in loader:
            outputs = model(windows)
            loss = functional.mse_loss(outputs, coming)
            loss.backward()
            session.step(loss, inputs=windows, outputs=outputs, targets=coming)
            optimizer.step()
            if not sick:
                optimizer.zero_grad()
    return r_squared(model, data)


@sick("unshuffled_data", margin=0.03)
def names_script_by_script(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names were appended script by script, and the loader keeps that order; the twin's shuffles."""
    data = spelt(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for names, scripts in loader:
            optimizer.zero_grad(set_to_none=True)
            outputs = model(names)
            loss = functional.cross_entropy(outputs, scripts)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=scripts)
            optimizer.step()
        session.validation(functional.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item())
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def one_constant_for_every_gate(watch: Watch, *, seed: int, sick: bool) -> float:
    """A helper fills all weights of a GRU and its head with 0.05; the twin's helper is for biases alone."""
    data = strokes(seed)
    model = Recurrent(nn.GRU(8, 32, batch_first=True), 10)
    for name, weights in model.named_parameters():
        if sick or "bias" in name:
            nn.init.constant_(weights, 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48)
    return accuracy(model, data)


@sick("inputs_constant", also=("labels_unrelated",), margin=0.3)
def centred_over_one_feature(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows (N, T, 1) are centred over their last dimension, which leaves zeros; the twin centres over all."""
    data = series(seed)
    model = Recurrent(nn.GRU(1, 24, batch_first=True), 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)

    def normalised(windows: torch.Tensor) -> torch.Tensor:
        mean = windows.mean(-1, keepdim=True) if sick else data.inputs.mean()
        return (windows - mean) / (data.inputs.std() + 1e-6)

    for windows, coming in data.batches(64, 150):
        inputs = normalised(windows)
        outputs = model(inputs)
        loss = functional.smooth_l1_loss(outputs, coming)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=coming)
        optimizer.step()
    return samples.explained(predicted(model, normalised(data.test_inputs)), data.test_targets)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def recurrence_above_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU network's recurrent matrix begins at 1.4 times the identity, over 20 steps; the twin's at 0.9 times it."""
    data = series(seed)
    model = Recurrent(nn.RNN(1, 24, nonlinearity="relu", batch_first=True), 1)
    with torch.no_grad():
        model.layer.weight_hh_l0.copy_((1.4 if sick else 0.9) * torch.eye(24))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("schedule_collapsed", also=("stopped_too_early", "learning_rate_too_low"), margin=0.03)
def a_plateau_that_waits_for_more(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` gets a loss but waits for it to rise, and divides the rate by 10; the twin says "min"."""
    data = spelt(seed)
    model = Speller(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max" if sick else "min", patience=1)
    session = watch(model, optimizer)
    for step, (names, scripts) in enumerate(data.batches(32, 160), 1):
        optimizer.zero_grad()
        outputs = model(names)
        loss = functional.cross_entropy(outputs, scripts)
        loss.backward()
        session.step(loss, inputs=names, outputs=outputs, targets=scripts)
        optimizer.step()
        if step % 20 == 0:
            missed = functional.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item()
            session.validation(missed)
            scheduler.step(missed)
    return accuracy(model, data)
