"""Nets of coordinates: photographs as functions of a place, and solutions of differential equations."""

import math

import torch
from sklearn.datasets import load_sample_image
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import explained, shuffled, swings


def _photograph(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns places (N, 2) from -1 to 1 in a shrunk photograph, and their colours (N, 3) of mean 0 and deviation 1."""
    name = "flower.jpg" if seed % 2 else "china.jpg"
    picture = torch.from_numpy(load_sample_image(name).copy()).float().movedim(2, 0)[None]
    colours = functional.interpolate(picture, (40, 56), mode="area")[0].flatten(1).T
    down, across = torch.meshgrid(torch.linspace(-1, 1, 40), torch.linspace(-1, 1, 56), indexing="ij")
    return torch.stack([across, down], -1).view(-1, 2), (colours - colours.mean()) / colours.std()


def _parted(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    places, colours = _photograph(seed)
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
    some, others = order[:1800], order[1800:]
    return places[some], colours[some], places[others], colours[others]


class _Waves(nn.Module):
    """Sines and cosines of a place, of fixed random frequencies."""

    def __init__(self, count: int = 32, spread: float = 2.5) -> None:
        super().__init__()
        self.register_buffer("frequencies", spread * torch.randn(2, count))

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        angles = places @ self.frequencies
        return torch.cat([angles.sin(), angles.cos()], -1)


def _painter(hidden: int = 64) -> nn.Sequential:
    return nn.Sequential(
        _Waves(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 3)
    )


@sick("learning_rate_too_high", margin=0.15)
def rate_of_the_first_photograph(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam paints at a rate of 0.3, thirty times that of the twin."""
    places, colours, test, test_colours = _parted(seed)
    net = _painter()
    opt = torch.optim.Adam(net.parameters(), lr=0.3 if sick else 0.01)
    session = watch(net, opt)
    for rows, wanted in shuffled(100, 220, places, colours):
        outputs = net(rows)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(test), test_colours)


@sick("dead_units", also=("poor_initialization",), margin=0.15)
def prior_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bias that makes a rare class unlikely at first, -4.6, is set in all layers instead of the last one.

    Which pixels are bright is asked for; quality: how much of the classes' variance is explained.
    """
    places, colours, test, test_colours = _parted(seed)
    bright, test_bright = ((values.mean(1, keepdim=True) > 0.8).float() for values in (colours, test_colours))
    net = nn.Sequential(_Waves(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    for layer in net if sick else [net[-1]]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, -4.6)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for rows, wanted in shuffled(100, 220, places, bright):
        outputs = net(rows)
        loss = functional.binary_cross_entropy_with_logits(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(test).sigmoid(), test_bright)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.15)
def a_preview_taken_for_the_picture(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixty steps, enough for a preview, are all that a photograph is painted in, while the loss still falls fast."""
    places, colours, test, test_colours = _parted(seed)
    net = _painter(96)
    opt = torch.optim.SGD(net.parameters(), lr=0.015)
    session = watch(net, opt)
    for rows, wanted in shuffled(150, 60 if sick else 400, places, colours):
        outputs = net(rows)
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(net(test), test_colours)


class _Swing(nn.Module):
    """An angle as a function of time, and a damping that is not known."""

    def __init__(self, *, as_number: bool) -> None:
        super().__init__()
        self.angle = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
        self.damping = nn.Parameter(torch.zeros(()))
        self.as_number = as_number

    def forward(self, time: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the angle, and what is left of the equation of the damped swing, of rate 2, at those times."""
        time = time.requires_grad_()
        angle = self.angle(time)
        speed = torch.autograd.grad(angle.sum(), time, create_graph=True)[0]
        push = torch.autograd.grad(speed.sum(), time, create_graph=True)[0]
        damping = self.damping.item() if self.as_number else self.damping
        return angle, push + damping * speed + 4 * angle


@sick("detached_parameters", margin=0.3)
def damping_as_a_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """The unknown damping of a physical loss is taken by ``item()``; it never moves. Quality: how near it comes."""
    actual = 0.6 + 0.1 * seed
    net = _Swing(as_number=sick)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)
    for _ in range(330):
        time = 3 * torch.rand(48, 1)
        beat = math.sqrt(4 - actual**2 / 4)
        measured = (-actual / 2 * time).exp() * (beat * time).cos() + 0.01 * torch.randn_like(time)
        angle, left = net(time)
        loss = functional.mse_loss(angle, measured) + 0.02 * left.square().mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=time.detach(), outputs=angle, targets=measured)
        opt.step()
    return 1 - abs(net.damping.item() - actual) / actual


@healthy(at_least=0.6)
def sines_upon_sines(watch: Watch, *, seed: int) -> float:
    """Sine layers with the weights that they need, large at first, and a rate that falls in a cosine."""

    class Sine(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return (12 * super().forward(rows)).sin()

    places, colours, test, test_colours = _parted(seed)
    net = nn.Sequential(Sine(2, 64), Sine(64, 64), nn.Linear(64, 3))
    nn.init.uniform_(net[0].weight, -0.5, 0.5)
    nn.init.uniform_(net[1].weight, -math.sqrt(6 / 64) / 12, math.sqrt(6 / 64) / 12)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 350)
    session = watch(net, opt)
    for rows, wanted in shuffled(200, 350, places, colours):
        outputs = net(rows)
        loss = (outputs - wanted).square().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        opt.step()
        falls.step()
    with torch.no_grad():
        return explained(net(test), test_colours)


@healthy(at_least=0.9)
def a_rod_that_cools(watch: Watch, *, seed: int) -> float:
    """The heat equation, solved from its residual and its borders alone; places are drawn anew at each step."""
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.0)
    falls = torch.optim.lr_scheduler.ExponentialLR(opt, 0.997)
    session = watch(net, opt)
    for _ in range(400):
        inside = torch.rand(80, 2).requires_grad_()
        slope = torch.autograd.grad(net(inside).sum(), inside, create_graph=True)[0]
        bend = torch.autograd.grad(slope[:, 0].sum(), inside, create_graph=True)[0][:, 0]
        left = slope[:, 1] - 0.2 * bend
        begin = torch.cat([torch.rand(40, 1), torch.zeros(40, 1)], 1)
        ends = torch.stack([(torch.rand(40) < 0.5).float(), torch.rand(40)], 1)
        loss = left.square().mean() + 10 * (net(begin) - (math.pi * begin[:, :1]).sin()).square().mean()
        loss = loss + 10 * net(ends).square().mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss)
        opt.step()
        falls.step()
    test = torch.rand(500, 2, generator=torch.Generator().manual_seed(seed))
    solution = (math.pi * test[:, 0]).sin() * (-0.2 * math.pi**2 * test[:, 1]).exp()
    with torch.no_grad():
        return explained(net(test)[:, 0], solution)


@healthy(at_least=0.8)
def a_step_of_time_learnt(watch: Watch, *, seed: int) -> float:
    """A net is the slope of angle and speed, integrated in eight steps of Euler; the data are batches of paths."""
    angles, told = swings(seed, 500, 24)
    speeds = angles[:, 1:] - angles[:, :-1]
    paths = torch.stack([angles[:, 1:], 5 * speeds], -1)
    slope = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 2))
    opt = torch.optim.Adam(slope.parameters(), lr=1e-2)
    session = watch(slope, opt)

    def moved(state: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        seen = []
        for _ in range(8):
            state = state + 0.3 * slope(torch.cat([state, kinds], 1))
            seen.append(state)
        return torch.stack(seen, 1)

    for path, kinds in shuffled(60, 250, paths[:400], told[:400]):
        begin = int(torch.randint(14, ()))
        outputs, wanted = moved(path[:, begin], kinds), path[:, begin + 1 : begin + 9]
        loss = functional.mse_loss(outputs, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=path[:, begin], outputs=outputs, targets=wanted)
        opt.step()
    with torch.no_grad():
        return explained(moved(paths[400:, 6], told[400:])[..., 0], paths[400:, 7:15, 0])
