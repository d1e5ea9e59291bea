"""Series: the columns of a photograph, of which the next grey levels are to be told."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened20.b_stock import scaled, scanlines


class _Recurrent(nn.Module):
    """A GRU along a column, and a linear layer for what comes next."""

    def __init__(self, ahead: int = 4, width: int = 24) -> None:
        super().__init__()
        self.gru = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, ahead)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(past[..., None])[0][:, -1])


@sick("learning_rate_too_low", margin=0.1)
def a_rate_from_fine_tuning(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU starts from nothing at 2e-5, as language models are fine-tuned; the twin has 0.005."""
    train, test = scaled(scanlines(seed))
    model = _Recurrent()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for past, future in DataLoader(train, 48, shuffle=True):
            outputs = model(past)
            loss = functional.mse_loss(outputs, future)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class _Flow(nn.Module):
    """A state that moves along a learned field in many small steps of time, whose size may be forgotten."""

    def __init__(self, step: float, times: int = 30) -> None:
        super().__init__()
        self.entry, self.exit = nn.Linear(24, 32), nn.Linear(32, 4)
        self.field = nn.Sequential(nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32))
        self._step, self._times = step, times

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        state = self.entry(past)
        for _ in range(self._times):
            state = state + self._step * self.field(state)
        return self.exit(state)


@sick("exploding_gradients", also=("learning_rate_too_high", "poor_initialization"), margin=0.1)
def the_step_of_time_is_forgotten(watch: Watch, *, seed: int, sick: bool) -> float:
    """Euler's method adds the whole slope 30 times, and states and gradients grow; the twin adds a thirtieth of it."""
    train, test = scaled(scanlines(seed))
    model = _Flow(1.0 if sick else 1 / 30)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for past, future in DataLoader(train, 32, shuffle=True):
            outputs = model(past)
            loss = functional.smooth_l1_loss(outputs, future)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("shape_broadcast", margin=0.1)
def a_channel_too_many(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convolution gives (N, 1, T), the targets are (N, T): each series is compared with all; the twin drops the 1."""
    train, test = scaled(scanlines(seed))
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, padding=4), nn.ReLU(), nn.Conv1d(16, 16, 9, padding=4), nn.ReLU(), nn.Conv1d(16, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for past, _ in DataLoader(train, 32, shuffle=True):
            noisy = past + 0.5 * torch.randn_like(past)
            outputs = model(noisy[:, None])
            if not sick:
                outputs = outputs.squeeze(1)
            loss = ((outputs - past) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=past)
            optimizer.step()
    with torch.no_grad():
        noisy = test.tensors[0] + 0.5 * torch.randn_like(test.tensors[0])
        return samples.explained(model(noisy[:, None])[:, 0], test.tensors[0])


class _Lstm(nn.Module):
    """An LSTM that wants time first, to which a batch is brought in one way or another."""

    def __init__(self, viewed: bool) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 24), nn.Linear(24, 4)
        self._viewed = viewed

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        count, length = past.shape
        series = past.reshape(length, count, 1) if self._viewed else past.T[..., None]
        return self.head(self.lstm(series)[0][-1])


@sick("batch_mixing", margin=0.1)
def reshaped_where_it_should_be_transposed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reshape(T, N, 1)`` of (N, T) makes series of bits of all samples; the twin transposes."""
    train, test = scaled(scanlines(seed))
    model = _Lstm(viewed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for past, future in DataLoader(train, 32, shuffle=True):
            outputs = model(past)
            loss = functional.mse_loss(outputs, future)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=past, outputs=outputs, targets=future)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.3)
def density_above_one(watch: Watch, *, seed: int) -> float:
    """A net gives a mean and a deviation for each grey level: the loss falls below 0, and single batches jump."""
    train, test = scaled(scanlines(seed))
    model = nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Linear(48, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for past, future in DataLoader(train, 32, shuffle=True):
            mean, free = model(past).chunk(2, 1)
            mean = mean + past[:, -1:]
            loss = functional.gaussian_nll_loss(mean, future, functional.softplus(free) + 1e-2)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            session.step(loss, inputs=past, outputs=mean, targets=future)
            optimizer.step()
    with torch.no_grad():
        mean = model(test.tensors[0])[:, :4] + test.tensors[0][:, -1:]
    return samples.explained(mean, test.tensors[1])
