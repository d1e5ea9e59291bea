"""Trainings that forecast a chaotic series, by convolutions and recurrent nets."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened18.b_stock import series


class _Recurrent(nn.Module):
    """A GRU that puts out one number for each value that it has read."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.cell = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(values[..., None])[0])


@sick("shape_broadcast", margin=0.1)
def every_place_with_every_series(watch: Watch, *, seed: int, sick: bool) -> float:
    """32 series of 32 values: outputs (32, 32, 1) minus targets (32, 32) pair places with series; the twin squeezes."""
    train, test = series(seed)
    model = _Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(5):
        for past, future in DataLoader(train, 32, shuffle=True, drop_last=True):
            outputs = model(past)
            if not sick:
                outputs = outputs.squeeze(-1)
            loss = (outputs - future).square().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, -1, 0], test.tensors[1][:, -1])


@sick("target_out_of_range", margin=0.05)
def the_hidden_state_as_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last LSTM has one unit, and its state is the forecast, between -1 and 1; the twin has a linear head."""
    train, test = (TensorDataset(part.tensors[0], 3 * part.tensors[1]) for part in series(seed))
    body = nn.LSTM(1, 16, batch_first=True)
    head = nn.LSTM(16, 1, batch_first=True) if sick else nn.Linear(16, 1)
    model = nn.ModuleList([body, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)

    def forecast(past: torch.Tensor) -> torch.Tensor:
        states, _ = body(past[..., None])
        return head(states)[0][:, -1] if sick else head(states[:, -1])

    for _ in range(5):
        for past, future in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = forecast(past)
            loss = functional.mse_loss(outputs, future[:, -1:])
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future[:, -1:])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(forecast(test.tensors[0]), test.tensors[1][:, -1:])


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def one_loss_for_each_time_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``loss += criterion(...)`` over 32 places and as many rows, at a rate for a mean; the twin divides the sum."""
    train, test = series(seed)
    cell, head = nn.GRUCell(1, 20), nn.Linear(20, 1)
    model = nn.ModuleDict({"cell": cell, "head": head})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum")
    session = watch(model, optimizer)

    def run(past: torch.Tensor) -> torch.Tensor:
        state, outputs = torch.zeros(len(past), 20), []
        for place in range(past.shape[1]):
            state = cell(past[:, place, None], state)
            outputs.append(head(state)[:, 0])
        return torch.stack(outputs, 1)

    for _ in range(4):
        for past, future in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            outputs = run(past)
            loss = torch.zeros(())
            for place in range(past.shape[1]):
                loss = loss + criterion(outputs[:, place], future[:, place])
            if not sick:
                loss = loss / future.numel()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(run(test.tensors[0])[:, -1], test.tensors[1][:, -1])


class _Causal(nn.Module):
    """Convolutions along time whose holes double from layer to layer."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.entry = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**power) for power in range(4))
        self.head = nn.Conv1d(width, 1, 1)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        values = self.entry(past[:, None])
        for layer in self.layers:
            answer = torch.relu(layer(values))
            values = values[..., -answer.shape[-1] :] + answer
        return self.head(values)[:, 0, -1]


@sick("learning_rate_too_low", margin=0.1)
def adadelta_at_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam is exchanged for Adadelta, whose usual rate is 1, and its 0.001 stays; the twin takes 1."""
    train, test = series(seed)
    model = _Causal()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1e-3 if sick else 1.0)
    session = watch(model, optimizer)
    for _ in range(10):
        for past, future in DataLoader(train, 32, shuffle=True):
            outputs = model(past)
            loss = functional.smooth_l1_loss(outputs, future[:, -1])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future[:, -1])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1][:, -1])


@sick("stopped_too_early", margin=0.05)
def a_patience_of_one_look(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training ends at the first look at which the held-out loss has not fallen by 0.05; the twin's runs to its end."""
    train, test = series(seed)
    model = _Causal()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    session = watch(model, optimizer)
    best, step = float("inf"), 0
    for _ in range(12):
        for past, future in DataLoader(train, 32, shuffle=True):
            outputs = model(past)
            loss = functional.mse_loss(outputs, future[:, -1])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future[:, -1])
            optimizer.step()
            step += 1
            if step % 20 == 0:
                with torch.no_grad(), session.validating():
                    held_out = functional.mse_loss(model(test.tensors[0]), test.tensors[1][:, -1]).item()
                session.validation(held_out)
                if sick and step >= 60 and held_out > best - 0.05:
                    return samples.explained(model(test.tensors[0]).detach(), test.tensors[1][:, -1])
                best = min(best, held_out)
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1][:, -1])


@healthy(at_least=0.8)
def a_frozen_reservoir(watch: Watch, *, seed: int) -> float:
    """An echo state network: the recurrence is random and frozen on purpose, and only a linear reader is trained."""
    train, test = series(seed)
    reservoir = nn.RNN(1, 80, batch_first=True).requires_grad_(False)
    radius = torch.linalg.eigvals(reservoir.weight_hh_l0).abs().max()
    reservoir.weight_hh_l0.mul_(0.9 / radius)
    nn.init.uniform_(reservoir.weight_ih_l0, -0.5, 0.5)
    model = nn.ModuleDict({"reservoir": reservoir, "reader": nn.Linear(80, 1)})
    optimizer = torch.optim.Adam(model["reader"].parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(12):
        for past, future in DataLoader(train, 32, shuffle=True):
            outputs = model["reader"](reservoir(past[..., None])[0][:, -1])
            loss = functional.mse_loss(outputs, future[:, -1:])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future[:, -1:])
            optimizer.step()
    with torch.no_grad():
        outputs = model["reader"](reservoir(test.tensors[0][..., None])[0][:, -1])
        return samples.explained(outputs, test.tensors[1][:, -1:])
