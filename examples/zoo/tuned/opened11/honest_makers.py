"""Sound trainings of models that make data, or say how likely they are."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


def _moments(made: torch.Tensor, true: torch.Tensor) -> float:
    """Returns 1 minus the largest difference of means and covariances."""
    return 1 - max((made.mean(0) - true.mean(0)).abs().max().item(), (made.T.cov() - true.T.cov()).abs().max().item())


@healthy(at_least=0.4)
def gan_with_hinge_and_spectral_norm(watch: Watch, *, seed: int) -> float:
    """A critic with spectral norm and a hinge loss; an average of the generator is what is used."""
    true = datasets.iris(seed).inputs[:, [0, 2]]
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(spectral_norm(nn.Linear(2, 48)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(48, 1)))
    making = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.9))
    judging = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.0, 0.9))
    of_generator, of_critic = watch(generator, making), watch(critic, judging)
    kept = copy.deepcopy(generator)
    for step in range(160):
        for _ in range(2):
            real = true[torch.randint(len(true), (48,))]
            fake = generator(torch.randn(48, 4)).detach()
            of_real, of_fake = critic(torch.cat([real, fake])).chunk(2)
            loss = (1 - of_real).relu().mean() + (1 + of_fake).relu().mean()
            judging.zero_grad()
            loss.backward()
            of_critic.step(loss)
            judging.step()
        noise = torch.randn(48, 4)
        fake = generator(noise)
        loss = -critic(fake).mean()
        making.zero_grad()
        loss.backward()
        of_generator.step(loss, inputs=noise, outputs=fake)
        making.step()
        with torch.no_grad():
            for mean, new in zip(kept.parameters(), generator.parameters(), strict=True):
                mean.lerp_(new, 0.05 if step > 50 else 1.0)
    with torch.no_grad():
        made = kept(torch.randn(1000, 4))
    return 1 - (made.mean(0) - true.mean(0)).abs().max().item()


@healthy(at_least=0.5)
def diffusion_of_points(watch: Watch, *, seed: int) -> float:
    """A net says the noise in noised points; the loss soon stays at what no net can say."""
    true = datasets.iris(seed).inputs[:, [0, 2]]
    model = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    levels = torch.linspace(1e-3, 0.25, 30)
    kept = (1 - levels).cumprod(0)

    def noise_in(points: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        angle = level[:, None] / 30 * math.pi
        return model(torch.cat([points, angle.sin(), angle.cos(), (2 * angle).sin(), (2 * angle).cos()], 1))

    session = watch(model, optimizer)
    for _ in range(400):
        points = true[torch.randint(len(true), (128,))]
        level = torch.randint(30, (128,))
        noise = torch.randn_like(points)
        noised = kept[level, None].sqrt() * points + (1 - kept[level, None]).sqrt() * noise
        found = noise_in(noised, level)
        loss = functional.mse_loss(found, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noised, outputs=found, targets=noise)
        optimizer.step()
    points = torch.randn(1000, 2)
    with torch.no_grad():
        for level in reversed(range(30)):
            found = noise_in(points, torch.full((1000,), level))
            points = (points - levels[level] / (1 - kept[level]).sqrt() * found) / (1 - levels[level]).sqrt()
            if level:
                points += levels[level].sqrt() * torch.randn_like(points)
    return _moments(points, true)


class Coupling(nn.Module):
    """Shifts and scales one half of the columns by what the other half says."""

    def __init__(self, columns: int, *, swap: bool) -> None:
        super().__init__()
        half = columns // 2
        self.net = nn.Sequential(nn.Linear(half, 32), nn.Tanh(), nn.Linear(32, 2 * (columns - half)))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)
        self.half, self.swap = half, swap

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.swap:
            values = values.flip(1)
        fixed, moved = values[:, : self.half], values[:, self.half :]
        scale, shift = self.net(fixed).chunk(2, 1)
        scale = scale.tanh()
        return torch.cat([fixed, moved * scale.exp() + shift], 1), scale.sum(1)


@healthy(at_least=0.15)
def flow_of_couplings(watch: Watch, *, seed: int) -> float:
    """A normalising flow, whose loss may go below zero; last layers begin at zero. Quality: nats gained, by ten."""
    data = datasets.wine(seed)
    model = nn.ModuleList(Coupling(12, swap=number > 0) for number in range(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    prior = torch.distributions.Normal(0.0, 1.0)

    def surprise(values: torch.Tensor) -> torch.Tensor:
        gained = torch.zeros(len(values))
        for layer in model:
            values, volume = layer(values)
            gained = gained + volume
        return -(prior.log_prob(values).sum(1) + gained).mean()

    session = watch(model, optimizer)
    with torch.no_grad():
        before = surprise(data.test_inputs[:, 1:]).item()
    for rows, _ in data.batches(32, 160):
        loss = surprise(rows[:, 1:] + 0.05 * torch.randn(len(rows), 12))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    with torch.no_grad():
        return (before - surprise(data.test_inputs[:, 1:]).item()) / 10


@healthy(at_least=0.7)
def energies_told_apart_from_noise(watch: Watch, *, seed: int) -> float:
    """An energy for rows of tumours, by noise contrast. Quality: how often a true row is likelier than a mixed one."""
    train, test = samples.standardised(samples.tumours(seed), 0)

    def mixed(rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([column[torch.randperm(len(column))] for column in rows.T], 1)

    energy = nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(energy.parameters(), lr=2e-3)
    session = watch(energy, optimizer)
    for _ in range(250):
        rows = train.tensors[0][torch.randint(len(train), (64,))]
        true, false = energy(rows), energy(mixed(rows))
        loss = (functional.softplus(true) + functional.softplus(-false)).mean()
        loss = loss + 1e-3 * (true.square() + false.square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=true)
        optimizer.step()
    with torch.no_grad():
        return (energy(test.tensors[0]) < energy(mixed(test.tensors[0]))).float().mean().item()


class Quantised(nn.Module):
    """An autoencoder whose code is the nearest of 32 vectors; gradients go straight through the choice."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32))
        self.book = nn.Parameter(torch.randn(32, 8) * 0.3)
        self.decoder = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = self.encoder(pixels).view(-1, 4, 8)
        chosen = self.book[torch.cdist(code, self.book.expand(len(code), -1, -1)).argmin(-1)]
        commitment = functional.mse_loss(chosen, code.detach()) + 0.25 * functional.mse_loss(code, chosen.detach())
        return self.decoder((code + (chosen - code).detach()).flatten(1)), commitment


@healthy(at_least=0.3)
def autoencoder_with_a_code_book(watch: Watch, *, seed: int) -> float:
    """Vectors of the book that nothing is near to have no gradient."""
    data = datasets.digits(seed)
    model = Quantised()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 250):
        drawn, commitment = model(pixels)
        loss = functional.mse_loss(drawn, pixels) / 0.07 + commitment
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=drawn, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_inputs)
