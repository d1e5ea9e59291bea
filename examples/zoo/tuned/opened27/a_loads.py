"""Forecasts of series: networks of states, of dilated windows and of attention, and what goes wrong on the way."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened27.a_stock import signals


def forecast(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    pair: samples.Pair,
    *,
    epochs: int,
    shuffle: bool = True,
    criterion: nn.Module | None = None,
    clip: float = 0.0,
) -> float:
    """Trains a model of series and returns the R² of what comes next."""
    train, test = pair
    criterion = criterion or nn.MSELoss()
    session = watch(model, optimizer)
    for _ in range(epochs):
        for windows, following in DataLoader(train, 32, shuffle=shuffle):
            outputs = model(windows)
            loss = criterion(outputs, following)
            optimizer.zero_grad()
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            session.step(loss, inputs=windows, outputs=outputs, targets=following)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class States(nn.Module):
    """A recurrent network, whose last state goes through a layer."""

    def __init__(self, cells: nn.RNNBase, outputs: int = 1) -> None:
        super().__init__()
        self.cells, self.head = cells, nn.Linear(cells.hidden_size, outputs)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(windows)[0][:, -1])


class Sequence(nn.Module):
    """All states of a network."""

    def __init__(self, cells: nn.RNNBase) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return self.cells(windows)[0]


class Last(nn.Module):
    """The last state of a network itself."""

    def __init__(self, cells: nn.RNNBase) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return self.cells(windows)[0][:, -1]


@sick("batch_mixing", margin=0.1)
def batch_first_forgotten(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows (batch, time, 1) go to a GRU that takes time first: the batch is its time; the twin's takes them."""
    model = States(nn.GRU(1, 24, batch_first=not sick))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return forecast(watch, model, optimizer, signals(seed, length=24), epochs=10)


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units"), margin=0.05)
def a_state_of_one_number_as_the_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """A second LSTM of size 1 gives the forecast, in -1…1, of loads up to ±2.8; the twin ends in a linear layer."""
    cells = nn.LSTM(1, 24, batch_first=True)
    model = nn.Sequential(Sequence(cells), Last(nn.LSTM(24, 1, batch_first=True))) if sick else States(cells)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return forecast(watch, model, optimizer, signals(seed, length=24), epochs=10)


@sick("exploding_gradients", also=("learning_rate_too_high", "poor_initialization", "non_finite_forward"), margin=0.1)
def a_recurrent_relu_of_wide_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU network's recurrent weights have a deviation of 0.3, over 48 hours; the twin's are 0.9 on the diagonal."""
    model = States(nn.RNN(1, 32, nonlinearity="relu", batch_first=True))
    with torch.no_grad():
        weight = model.cells.weight_hh_l0
        weight.normal_(0, 0.3) if sick else weight.copy_(0.9 * torch.eye(32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    return forecast(watch, model, optimizer, signals(seed), epochs=14, clip=0.0 if sick else 1.0)


class Dilated(nn.Module):
    """A TCN: causal convolutions of growing reach, with residuals, and a layer at the last hour."""

    def __init__(self, width: int = 16, outputs: int = 1) -> None:
        super().__init__()
        self.entry = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList([nn.Conv1d(width, width, 3, dilation=2**power) for power in range(4)])
        self.head = nn.Linear(width, outputs)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        states = self.entry(windows.transpose(1, 2))
        for layer in self.layers:
            states = states + layer(functional.pad(states, (2 * layer.dilation[0], 0))).relu()
        return self.head(states[..., -1])


@sick("schedule_collapsed", also=("stopped_too_early", "learning_rate_too_low"), margin=0.1)
def steps_of_epochs_taken_by_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``StepLR(5, 0.2)`` is meant for epochs and steps with every batch; the twin's steps after each epoch."""
    train, test = signals(seed, length=32, ahead=4)
    model = Dilated(outputs=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.2)
    session = watch(model, optimizer)
    for _ in range(12):
        for windows, following in DataLoader(train, 32, shuffle=True):
            outputs = model(windows)
            loss = functional.l1_loss(outputs, following)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=windows, outputs=outputs, targets=following)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def errors_of_all_hours_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MSELoss(reduction="sum")`` of 32 windows and 6 hours at a rate for means; the twin takes the mean."""
    model = Dilated(outputs=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    pair = signals(seed, length=32, ahead=6)
    return forecast(watch, model, optimizer, pair, epochs=12, criterion=criterion)
