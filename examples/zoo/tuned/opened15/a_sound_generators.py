"""Sound generative models, whose losses are noisy, negative, or rise in part."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


@healthy(at_least=0.5)
def diffusion_at_all_levels_of_noise(watch: Watch, *, seed: int) -> float:
    """The loss depends on the drawn level of noise more than on the step: it jumps in each one."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(65, 160), nn.SiLU(), nn.Linear(160, 160), nn.SiLU(), nn.Linear(160, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 400):
        level = torch.rand(1, 1).expand(len(images), 1) * 0.95 + 0.02
        noise = torch.randn_like(images)
        noised = (1 - level).sqrt() * (2 * images - 1) + level.sqrt() * noise
        outputs = model(torch.cat([noised, level], 1))
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noised, outputs=outputs, targets=noise)
        optimizer.step()
    with torch.no_grad():
        level = torch.full((len(data.test_inputs), 1), 0.6)
        noise = torch.randn_like(data.test_inputs)
        noised = 0.4**0.5 * (2 * data.test_inputs - 1) + 0.6**0.5 * noise
        return samples.explained(model(torch.cat([noised, level], 1)), noise)


class _Flow(nn.Module):
    """Six affine couplings of two columns, each of which moves one by the other."""

    def __init__(self) -> None:
        super().__init__()
        lasts = [nn.Linear(32, 2) for _ in range(6)]
        for last in lasts:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(1, 32), nn.Tanh(), last) for last in lasts)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the logarithm of each row's likelihood."""
        one, other, gained = rows[:, :1], rows[:, 1:], torch.zeros(len(rows), 1)
        for net in self.nets:
            scale, shift = net(one).chunk(2, 1)
            scale = 1.5 * torch.tanh(scale)
            one, other, gained = other * scale.exp() + shift, one, gained + scale
        size = one.square() + other.square()
        return (gained - 0.5 * size - math.log(2 * math.pi)).squeeze(1)


@healthy(at_least=0.1)
def a_flow_that_begins_as_the_identity(watch: Watch, *, seed: int) -> float:
    """Last layers begin at zero on purpose; quality: nats above a normal distribution with the same covariance."""
    data = datasets.breast_cancer(seed)
    columns = [6, 13]
    train, test = (torch.log1p(part[:, columns] - data.inputs[:, columns].amin(0) + 0.1) for part in _both(data))
    spread, mean = torch.std_mean(train, 0)
    train, test = (train - mean) / spread, (test - mean) / spread
    model = _Flow()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(350):
        rows = train[torch.randint(len(train), (128,))]
        loss = -model(rows).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    normal = torch.distributions.MultivariateNormal(train.mean(0), torch.cov(train.T))
    with torch.no_grad():
        return (model(test).mean() - normal.log_prob(test).mean()).item()


def _both(data: datasets.Data) -> tuple[torch.Tensor, torch.Tensor]:
    return data.inputs, data.test_inputs.maximum(data.inputs.amin(0))


@healthy(at_least=0.5)
def a_codebook_through_a_straight_line(watch: Watch, *, seed: int) -> float:
    """VQ-VAE: the nearest code is chosen, its gradient passes straight through, and the commitment loss rises."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
    decoder = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 64))
    codebook = nn.Embedding(32, 4)
    model = nn.ModuleDict({"encoder": encoder, "codebook": codebook, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def quantised(states: torch.Tensor) -> torch.Tensor:
        parts = states.view(-1, 4)
        return codebook(torch.cdist(parts, codebook.weight).argmin(1)).view_as(states)

    for images, _ in data.batches(64, 400):
        states = encoder(images)
        codes = quantised(states)
        outputs = decoder(states + (codes - states).detach())
        apart = functional.mse_loss(codes, states.detach()) + 0.25 * functional.mse_loss(states, codes.detach())
        loss = functional.mse_loss(outputs, images) + 0.1 * apart
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(quantised(encoder(data.test_inputs))), data.test_inputs)


@healthy(at_least=0.6)
def a_denoiser_with_a_summed_error(watch: Watch, *, seed: int) -> float:
    """The error is summed over a picture and averaged over pictures: large losses, with a rate that fits them."""
    train, test = samples.halves(seed)
    whole, unseen = torch.cat(train.tensors, 1), torch.cat(test.tensors, 1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ELU(), nn.Linear(128, 40), nn.ELU(), nn.Linear(40, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-4)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows in torch.randperm(len(whole)).split(72):
            images = 16 * whole[rows]
            outputs = model(whole[rows] * (torch.rand(len(rows), 64) > 0.2))
            loss = (outputs - images).square().sum() / len(rows)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=whole[rows], outputs=outputs, targets=images)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(unseen), 16 * unseen)
