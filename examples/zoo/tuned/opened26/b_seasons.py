"""Forecasts of a shop's sales by recurrent and convolutional nets."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import Loss
from examples.zoo.tuned.opened26.b_stock import columns, sales


class Recurrent(nn.Module):
    """A GRU's last state, and a linear layer."""

    def __init__(self, columns: int = 1, width: int = 24) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(columns, width, batch_first=True), nn.Linear(width, 1)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the forecast (N, 1)."""
        return self.head(self.rnn(windows)[0][:, -1])


class Block(nn.Module):
    """A dilated causal convolution."""

    def __init__(self, inputs: int, width: int, dilation: int, activation: nn.Module, *, residual: bool) -> None:
        super().__init__()
        self.pad, self.residual = 2 * dilation, residual
        self.conv, self.activation = nn.Conv1d(inputs, width, 3, dilation=dilation), activation

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        """Returns a series of the same length."""
        found = self.activation(self.conv(functional.pad(series, (self.pad, 0))))
        return series + found if self.residual and found.shape == series.shape else found


def _trained(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    pair: samples.Pair,
    *,
    epochs: int = 14,
    schedule: Any = None,
    loss_function: Loss = functional.mse_loss,
) -> float:
    (windows, values), (test_windows, test_values) = columns(pair)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for batch in torch.randperm(len(windows)).split(48):
            optimizer.zero_grad()
            outputs = model(windows[batch])
            loss = loss_function(outputs, values[batch])
            loss.backward()
            session.step(loss, inputs=windows[batch], outputs=outputs, targets=values[batch])
            optimizer.step()
            if schedule is not None:
                schedule.step()
        with session.validating(), torch.no_grad():
            session.validation(loss_function(model(test_windows), test_values).item())
    with torch.no_grad():
        return samples.explained(model(test_windows), test_values)


@sick("inputs_constant", margin=0.3)
def each_day_is_compared_with_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows (N, 14, 1) are centred along their last axis, of one column: all become 0; the twin's axis is time."""
    parts = []
    for dataset in sales(seed):
        windows, values = dataset.tensors
        spread, level = windows.std(1, keepdim=True), windows.mean(1, keepdim=True)
        if sick:
            level = windows.mean(-1, keepdim=True)
        parts.append(torch.utils.data.TensorDataset((windows - level) / spread, values))
    model = Recurrent()
    return _trained(watch, model, torch.optim.Adam(model.parameters(), lr=1e-2), (parts[0], parts[1]))


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.3)
def days_as_seconds_since_1970(watch: Watch, *, seed: int, sick: bool) -> float:
    """A column of time is in seconds since 1970, beside sales; the twin has the day's place in its window."""
    parts = []
    for dataset in sales(seed):
        windows, values = dataset.tensors
        days = torch.arange(14.0)[:, None].expand(len(windows), 14, 1)
        time = 1.6e9 + 86400 * days if sick else (days - 6.5) / 4
        parts.append(torch.utils.data.TensorDataset(torch.cat([windows, time], -1), values))
    model = Recurrent(2)
    return _trained(watch, model, torch.optim.Adam(model.parameters(), lr=1e-2), (parts[0], parts[1]))


@sick("vanishing_gradients", margin=0.2)
def nine_convolutions_with_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nine causal convolutions follow each other with sigmoids; the twin has ReLUs and residual paths."""

    def activation() -> nn.Module:
        return nn.Sigmoid() if sick else nn.ReLU()

    blocks = [Block(1, 16, 1, activation(), residual=False)]
    blocks += [Block(16, 16, 2 ** (index % 4), activation(), residual=not sick) for index in range(8)]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(16, 1)

        def forward(self, windows: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(windows.transpose(1, 2))[..., -1])

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return _trained(watch, model, optimizer, sales(seed), epochs=12)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def a_linear_decay_over_sixteen_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``LinearLR`` falls over 16 epochs, but is stepped in each batch; the twin counts it in batches."""
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    batches = 16 if sick else 16 * 16
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, total_iters=batches)
    return _trained(watch, model, optimizer, sales(seed), epochs=16, schedule=schedule)


@sick("learning_rate_too_high", also=("saturated_units", "exploding_gradients"), margin=0.05)
def adam_at_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU's Adam has 0.5, which was for the plain descent of a linear forecast; the twin has 0.01."""
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 if sick else 1e-2)
    return _trained(watch, model, optimizer, sales(seed), epochs=12)
