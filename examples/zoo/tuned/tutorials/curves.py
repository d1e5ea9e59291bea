"""Curves: waves in time, an equation's solution, and forecasts, as tutorials and papers' code fit them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy


class _Waves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(1, 24), nn.LSTMCell(24, 24)
        self.linear = nn.Linear(24, 1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(len(values), 24, dtype=values.dtype)
        state, other, outputs = (zeros, zeros), (zeros, zeros), []
        for value in values.split(1, dim=1):
            state = self.first(value, state)
            other = self.second(state[0], other)
            outputs.append(self.linear(other[0]))
        return torch.cat(outputs, 1)


@healthy(at_least=0.9)
def sine_waves_with_lbfgs(watch: Watch, *, seed: int) -> float:
    """PyTorch's time sequence prediction: LBFGS at a rate of 0.8, all waves at each step, in double precision."""
    shifts = torch.randint(-80, 80, (24, 1))
    waves = torch.sin((torch.arange(32) + shifts).double() / 10)
    model = _Waves().double()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=8)
    session = watch(model, optimizer)
    criterion = nn.MSELoss()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = criterion(model(waves[4:, :-1]), waves[4:, 1:])
        loss.backward()
        return loss

    for _ in range(7):
        session.step(optimizer.step(closure))
    with torch.no_grad():
        return 1 - criterion(model(waves[:4, :-1]), waves[:4, 1:]).item() / waves[:4, 1:].var().item()


def _derivative(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(values, at, torch.ones_like(values), create_graph=True)[0]


@healthy(at_least=0.9)
def a_damped_oscillator(watch: Watch, *, seed: int) -> float:
    """A physics-informed net: its derivatives at the same points, step by step, have to obey an equation."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    start = torch.zeros(1, 1, requires_grad=True)
    points = torch.linspace(0, 1, 30).view(-1, 1).requires_grad_(True)
    for _ in range(400):
        optimizer.zero_grad()
        position = net(start)
        of_place = (position.squeeze() - 1) ** 2
        of_speed = _derivative(position, start).squeeze() ** 2
        position = net(points)
        speed = _derivative(position, points)
        of_equation = ((_derivative(speed, points) + 2 * speed + 9 * position) ** 2).mean()
        loss = of_place + 1e-1 * of_speed + 1e-2 * of_equation
        loss.backward()
        session.step(loss)
        optimizer.step()
    times = torch.linspace(0, 1, 50).view(-1, 1)
    rate = 8**0.5
    truth = torch.exp(-times) * (torch.cos(rate * times) + torch.sin(rate * times) / rate)
    with torch.no_grad():
        return 1 - functional.mse_loss(net(times), truth).item() / truth.var().item()


class _Block(nn.Module):
    """A block of N-BEATS: a part of the past that it explains, and what follows from that."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.backcast, self.forecast = nn.Linear(64, 48), nn.Linear(64, 12)

    def forward(self, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.layers(past)
        return self.backcast(hidden), self.forecast(hidden)


class _Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block() for _ in range(3))

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        future = torch.zeros(len(past), 12)
        for block in self.blocks:
            explained, following = block(past)
            past, future = past - explained, future + following
        return future


@healthy(at_least=0.8)
def blocks_of_forecasts(watch: Watch, *, seed: int) -> float:
    """N-BEATS: what the last block explains of the past is computed like that of the others, and used by nothing."""
    times = torch.arange(2500) * 2 * torch.pi
    series = torch.sin(times / 24) + 0.5 * torch.sin(times / 168) + 0.1 * torch.randn(2500)
    windows = series.unfold(0, 60, 1)
    model = _Blocks()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(250):
        rows = windows[torch.randint(2000, (64,))]
        optimizer.zero_grad()
        outputs = model(rows[:, :48])
        loss = functional.l1_loss(outputs, rows[:, 48:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=rows[:, :48], outputs=outputs, targets=rows[:, 48:])
        optimizer.step()
    with torch.no_grad():
        rows = windows[2100:]
        return 1 - functional.mse_loss(model(rows[:, :48]), rows[:, 48:]).item() / rows[:, 48:].var().item()
