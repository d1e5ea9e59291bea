"""Trainings that learn how pendulums, springs and cooling bodies move."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import explained, pendulums


def _driven(times: torch.Tensor) -> torch.Tensor:
    """Returns the solution of u' = -u + cos(2t) with u(0) = 1."""
    return 0.8 * torch.exp(-times) + (torch.cos(2 * times) + 2 * torch.sin(2 * times)) / 5


@sick("shape_broadcast")
def residual_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """The net's slope is a column, the force a row: their sum is a matrix; the twin makes the force a column."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for _ in range(400):
        times = 3 * torch.rand(64)
        points = times[:, None].requires_grad_()
        values = net(points)
        (slope,) = torch.autograd.grad(values.sum(), points, create_graph=True)
        force = torch.cos(2 * times) if sick else torch.cos(2 * times)[:, None]
        residual = slope + values - force
        loss = residual.square().mean() + 5 * (net(torch.zeros(1, 1)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=points, outputs=slope + values, targets=force)
        optimizer.step()
    times = torch.linspace(0, 3, 200)[:, None]
    with torch.no_grad():
        return explained(net(times), _driven(times))


class _Spring(nn.Module):
    """A damped spring that is simulated by small steps, with two numbers to be found."""

    def __init__(self, *, by_value: bool) -> None:
        super().__init__()
        self.stiffness, self.damping = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(0.5))
        self.by_value = by_value

    def forward(self, places: torch.Tensor, *, steps: int = 30, step: float = 0.05) -> torch.Tensor:
        stiffness = self.stiffness.item() if self.by_value else self.stiffness
        speeds, path = torch.zeros_like(places), []
        for _ in range(steps):
            speeds = speeds - step * (stiffness * places + self.damping * speeds)
            places = places + step * speeds
            path.append(places)
        return torch.stack(path, 1)


@sick("detached_parameters")
def stiffness_taken_as_a_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """The simulation reads one of two parameters by item(), which has no gradient; the twin uses the parameter."""
    truth = _Spring(by_value=False)
    with torch.no_grad():
        truth.stiffness.fill_(4.0)
        truth.damping.fill_(0.3)
        starts = torch.rand(200) + 0.5
        paths = truth(starts)
    noisy = paths + 0.02 * torch.randn(paths.shape)
    model = _Spring(by_value=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for _ in range(160):
        rows = torch.randint(150, (32,))
        outputs = model(starts[rows])
        loss = functional.mse_loss(outputs, noisy[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=starts[rows], outputs=outputs, targets=noisy[rows])
        optimizer.step()
    with torch.no_grad():
        return explained(model(starts[150:]), paths[150:])


class _Deep(nn.Module):
    """Ten sigmoid layers, with a way around each of them or without one."""

    def __init__(self, *, around: bool) -> None:
        super().__init__()
        self.first = nn.Linear(2, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(10))
        self.last = nn.Linear(32, 2)
        self.around = around

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        hidden = self.first(states)
        for layer in self.layers:
            changed = layer(hidden).sigmoid()
            hidden = hidden + changed if self.around else changed
        return self.last(hidden)


@sick("vanishing_gradients")
def ten_sigmoids_in_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pendulum's next state, through ten layers of sigmoids; the twin adds each layer's input to its output."""
    states, after = pendulums(seed)
    model = _Deep(around=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows in torch.randperm(480).split(32):
            outputs = model(states[rows])
            loss = functional.mse_loss(outputs, after[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=states[rows], outputs=outputs, targets=after[rows])
            optimizer.step()
    with torch.no_grad():
        return explained(model(states[480:]), after[480:])


@sick("stopped_too_early")
def a_flow_map_after_three_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pendulum's net is trained for three epochs, while its error still halves; the twin trains for sixteen."""
    states, after = pendulums(seed)
    model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    session = watch(model, optimizer)
    for _ in range(3 if sick else 16):
        for rows in torch.randperm(480).split(20):
            outputs = model(states[rows])
            loss = functional.mse_loss(outputs, after[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=states[rows], outputs=outputs, targets=after[rows])
            optimizer.step()
        with torch.no_grad(), session.validating():
            error = functional.mse_loss(model(states[480:]), after[480:])
        session.validation(error.item())
    with torch.no_grad():
        return explained(model(states[480:]), after[480:])


@healthy(at_least=0.95)
def a_hamiltonian_through_its_gradient(watch: Watch, *, seed: int) -> float:
    """The net's output is an energy that nothing compares: its gradients alone meet the slopes."""
    states, _ = pendulums(seed, count=700)
    slopes = torch.stack([states[:, 1], -4 * torch.sin(states[:, 0])], 1)
    net = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1, bias=False))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)

    def moved(points: torch.Tensor, *, training: bool) -> torch.Tensor:
        points = points.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(net(points).sum(), points, create_graph=training)
        return torch.stack([gradient[:, 1], -gradient[:, 0]], 1)

    session = watch(net, optimizer)
    for _ in range(25):
        for rows in torch.randperm(500).split(50):
            outputs = moved(states[rows], training=True)
            loss = functional.mse_loss(outputs, slopes[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=states[rows], outputs=outputs, targets=slopes[rows])
            optimizer.step()
    return explained(moved(states[500:], training=False), slopes[500:])


@healthy(at_least=0.95)
def an_equation_at_points_drawn_anew(watch: Watch, *, seed: int) -> float:
    """No data at all: the residual of an equation at new points in each step, and a start that weighs twenty-fold."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 200, 0.3)
    session = watch(net, optimizer)
    for _ in range(400):
        times = (3 * torch.rand(48, 1)).requires_grad_()
        values = net(times)
        (slope,) = torch.autograd.grad(values, times, torch.ones_like(values), create_graph=True)
        start = net(torch.zeros(1, 1)) - 1
        loss = (slope + values - torch.cos(2 * times)).square().mean() + 20 * start.square().sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=times)
        optimizer.step()
        schedule.step()
    times = torch.linspace(0, 3, 200)[:, None]
    with torch.no_grad():
        return explained(net(times), _driven(times))
