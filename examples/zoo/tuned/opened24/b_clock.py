"""Forecasts of a series."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened24.b_sources import Forecaster, load, parted


@sick("shape_broadcast", margin=0.2)
def the_last_state_keeps_its_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Forecasts (1, N, 1) from the whole of ``h_n`` meet targets (N,); the twin takes ``h_n[-1]`` and squeezes."""
    data = load(seed)
    data = Data(data.inputs, data.targets[:, 0], data.test_inputs, data.test_targets[:, 0])

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 1)

        def forward(self, windows: torch.Tensor) -> torch.Tensor:
            state = self.rnn(windows)[1][0]
            return self.head(state) if sick else self.head(state[-1]).squeeze(-1)

    model = Last()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("target_out_of_range", also=("saturated_units",), margin=0.03)
def the_state_of_an_lstm_is_the_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last LSTM has the width of the horizon and is the output, within ±1; the twin has a linear layer."""
    data = load(seed, horizon=6)

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.LSTM(1, 24, batch_first=True)
            self.second = nn.LSTM(24, 6, batch_first=True) if sick else nn.Linear(24, 6)

        def forward(self, windows: torch.Tensor) -> torch.Tensor:
            states = self.first(windows)[0]
            return self.second(states)[0][:, -1] if sick else self.second(states[:, -1])

    model = Stack()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("detached_parameters", margin=0.1)
def a_spectrum_by_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """A learnt filter's outputs go through NumPy's FFT by ``detach().numpy()``; the twin uses ``torch.fft``."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (900,), generator=random)
    time = torch.arange(64) / 64
    phases = 6.28 * torch.rand(900, 2, generator=random)
    tones = torch.sin(6.28 * (6 + 4 * labels[:, None]) * time + phases[:, :1])
    hum = 3 * torch.sin(6.28 * (7 + 4 * torch.randint(4, (900, 1), generator=random)) * time + phases[:, 1:])
    waves = 0.3 * tones + 0.1 * hum + 0.5 * torch.randn(900, 64, generator=random)
    data = parted(waves / waves.std(), labels, seed)

    class Heard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filters = nn.Linear(64, 16)
            self.head = nn.Linear(9, 4)

        def forward(self, waves: torch.Tensor) -> torch.Tensor:
            bands = self.filters(waves)
            if sick:
                spectrum = torch.from_numpy(np.abs(np.fft.rfft(bands.detach().numpy()))).float()
            else:
                spectrum = torch.fft.rfft(bands).abs()
            return self.head(spectrum)

    model = Heard()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("stopped_too_early", margin=0.05)
def the_best_loss_is_the_highest(watch: Watch, *, seed: int, sick: bool) -> float:
    """Stopping is set to ``max`` with a patience of two on a validation loss; the twin's is set to ``min``."""
    data = load(seed, horizon=6)
    model = Forecaster(6)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    best, waited = (-np.inf if sick else np.inf), 0
    for _ in range(14):
        for windows, values in data.batches(32, 24):
            optimizer.zero_grad()
            outputs = model(windows)
            loss = functional.mse_loss(outputs, values)
            loss.backward()
            session.step(loss, inputs=windows, outputs=outputs, targets=values)
            optimizer.step()
        validated = held_out_loss(model, data, functional.mse_loss)
        session.validation(validated)
        if validated > best if sick else validated < best:
            best, waited = validated, 0
        else:
            waited += 1
        if waited >= 2:
            break
    return r_squared(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def a_tenth_every_ten_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``StepLR(step_size=10)`` is stepped within the loop of batches; the twin steps it after an epoch."""
    data = load(seed, horizon=6)
    model = Forecaster(6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.1)
    session = watch(model, optimizer)
    for _ in range(12):
        for windows, values in data.batches(32, 24):
            optimizer.zero_grad()
            outputs = model(windows)
            loss = functional.mse_loss(outputs, values)
            loss.backward()
            session.step(loss, inputs=windows, outputs=outputs, targets=values)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    return r_squared(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def changes_in_percent_of_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rain is read as change since the day before, which may be 0 / 0 or 1 / 0; the twin adds one to both."""
    random = np.random.default_rng(seed)
    days = np.arange(1200)
    rain = np.clip(2 * np.sin(days / 5) + 2 + 0.5 * random.standard_normal(1200), 0, None)
    before, after = torch.from_numpy(rain[:-1]).float(), torch.from_numpy(rain[1:]).float()
    changes = (after - before) / before if sick else (after - before) / (before + 1)
    windows = changes.unfold(0, 17, 1)[:, :16, None]
    targets = after[16:]
    data = parted(windows, ((targets - targets.mean()) / targets.std())[:, None], seed)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("batch_mixing", margin=0.1)
def the_first_axis_is_taken_for_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows (N, length, 1) enter an LSTM without ``batch_first``, which runs over the batch; the twin has it."""
    data = load(seed, horizon=6)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(1, 24, batch_first=not sick), nn.Linear(24, 6)

        def forward(self, windows: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(windows)[0][:, -1])

    model = Last()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)
