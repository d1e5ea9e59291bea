"""Sound trainings that make things: pictures, points, and densities."""

import math

import torch
from sklearn.datasets import load_iris
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened6.makers import Pages, Variational, practise, restored


@healthy(at_least=0.5)
def noise_taken_away(watch: Watch, *, seed: int) -> float:
    """A denoising autoencoder with ReLU codes, of which about half are zero."""
    pages = Pages(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for sheaf in pages.sheaves(150):
        noisy = sheaf + 0.2 * torch.randn_like(sheaf)
        made = model(noisy)
        cost = functional.mse_loss(made, sheaf)
        optimizer.zero_grad()
        cost.backward()
        session.step(cost, inputs=noisy, outputs=made, targets=sheaf)
        optimizer.step()
    with torch.no_grad():
        return restored(model(pages.unseen + 0.2 * torch.randn_like(pages.unseen)), pages.unseen)


@healthy(at_least=0.4)
def variational_with_a_ramp(watch: Watch, *, seed: int) -> float:
    """A VAE in nats per picture, whose divergence is phased in from zero."""
    pages, model = Pages(seed), Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for number, sheaf in enumerate(pages.sheaves(180)):
        made, mean, log_variance = model(sheaf)
        error = (made - sheaf).square().sum(1).mean() / (2 * 0.15**2)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        cost = (error + divergence * min(1.0, number / 90)) / 64
        optimizer.zero_grad()
        cost.backward()
        session.step(cost, inputs=sheaf, outputs=made, targets=sheaf)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return restored(model(pages.unseen)[0], pages.unseen)


@healthy(at_least=0.6)
def forger_and_critic(watch: Watch, *, seed: int) -> float:
    """A GAN of the measures of petals: two models, two optimizers, losses that circle; 1 if moments agree."""
    flowers = torch.tensor(load_iris(return_X_y=True)[0], dtype=torch.float32)[:, 2:]
    flowers = (flowers - flowers.mean(0)) / flowers.std(0)
    forger = nn.Sequential(nn.Linear(4, 24), nn.LeakyReLU(0.2), nn.Linear(24, 2))
    critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    forging = torch.optim.Adam(forger.parameters(), lr=3e-3, betas=(0.5, 0.9))
    judging = torch.optim.Adam(critic.parameters(), lr=3e-3, betas=(0.5, 0.9))
    forger_session, critic_session = watch(forger, forging), watch(critic, judging)
    for _ in range(200):
        real = flowers[torch.randint(len(flowers), (48,))]
        false = forger(torch.randn(48, 4))
        doubt = functional.softplus(-critic(real)).mean() + functional.softplus(critic(false.detach())).mean()
        judging.zero_grad()
        doubt.backward()
        critic_session.step(doubt)
        judging.step()
        deceit = functional.softplus(-critic(false)).mean()
        forging.zero_grad()
        deceit.backward()
        forger_session.step(deceit)
        forging.step()
    with torch.no_grad():
        made = forger(torch.randn(2000, 4))
    return 1 - float((made.mean(0) - flowers.mean(0)).abs().mean() + (made.std(0) - flowers.std(0)).abs().mean()) / 2


@healthy(at_least=0.3)
def noise_predicted(watch: Watch, *, seed: int) -> float:
    """Diffusion: the noise in a digit is predicted at a random level; its loss stays large and noisy."""
    pages = Pages(seed, unit=8.0)
    model = nn.Sequential(nn.Linear(65, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def mixed(clean: Tensor) -> tuple[Tensor, Tensor]:
        noise, level = torch.randn_like(clean), torch.rand(len(clean), 1)
        angle = level * math.pi / 2
        return torch.cat([angle.cos() * (clean - 1) + angle.sin() * noise, level], 1), noise

    for sheaf in pages.sheaves(180):
        rows, noise = mixed(sheaf)
        guess = model(rows)
        cost = functional.mse_loss(guess, noise)
        optimizer.zero_grad()
        cost.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(cost, inputs=rows, outputs=guess, targets=noise)
        optimizer.step()
    with torch.no_grad():
        rows, noise = mixed(pages.unseen)
        return restored(model(rows), noise)


class Coupling(nn.Module):
    """Moves one half of the values by an affine map that the other half sets; it begins as the identity."""

    def __init__(self, *, swap: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 4))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)
        self.swap = swap

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        kept, moved = values.flip(1).chunk(2, 1) if self.swap else values.chunk(2, 1)
        stretch, shift = self.net(kept).chunk(2, 1)
        return torch.cat([kept, moved * stretch.tanh().exp() + shift], 1), stretch.tanh().sum(1)


@healthy(at_least=0.2)
def density_of_flowers(watch: Watch, *, seed: int) -> float:
    """A flow with zero-initialised couplings; the quality is the gain in nats over independent normals."""
    flowers = torch.tensor(load_iris(return_X_y=True)[0], dtype=torch.float32)
    flowers = ((flowers - flowers.mean(0)) / flowers.std(0))[torch.randperm(150)]
    train, test = flowers[:110], flowers[110:]
    flow = nn.ModuleList(Coupling(swap=bool(index % 2)) for index in range(4))
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    session = watch(flow, optimizer)

    def nats(values: Tensor) -> Tensor:
        volume = torch.zeros(len(values))
        for step in flow:
            values, more = step(values)
            volume = volume + more
        return (0.5 * values.square().sum(1) + 2 * math.log(2 * math.pi) - volume).mean()

    for _ in range(120):
        cost = nats(train[torch.randint(len(train), (64,))] + 0.1 * torch.randn(64, 4))
        optimizer.zero_grad()
        cost.backward()
        session.step(cost)
        optimizer.step()
    with torch.no_grad():
        plain = (0.5 * test.square().sum(1) + 2 * math.log(2 * math.pi)).mean()
        return float(plain - nats(test))


@healthy(at_least=0.4)
def codes_pressed_to_zero(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder with a penalty for each active code, and unit columns in its decoder."""
    pages = Pages(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.utils.parametrizations.weight_norm(nn.Linear(96, 64)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    codes: list[Tensor] = []
    model[1].register_forward_hook(lambda _module, _inputs, code: codes.append(code))

    def penalty(made: Tensor, truth: Tensor) -> Tensor:
        return functional.mse_loss(made, truth) + 1e-3 * codes.pop().abs().mean()

    practise(watch, model, optimizer, pages.sheaves(150), penalty)
    with torch.no_grad():
        return restored(model(pages.unseen), pages.unseen)
