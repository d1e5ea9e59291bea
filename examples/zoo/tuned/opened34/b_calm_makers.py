"""Sound trainings that look odd: densities, codes and makers."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened34.b_common import explained, parted, squares, strips


@healthy(at_least=0.6)
def a_vae_of_patches(watch: Watch, *, seed: int) -> float:
    """The divergence begins near 0 and grows, and its weight rises in the first hundred steps."""
    patches = squares(seed).flatten(1)
    data = parted(patches, patches, seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = encoder, decoder

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.decoder(self.encoder(pixels)[:, :8])

    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        mean, logarithm = encoder(pixels).chunk(2, 1)
        outputs = decoder(mean + torch.randn_like(mean) * (logarithm / 2).exp())
        divergence = 0.5 * (mean.square() + logarithm.exp() - 1 - logarithm).sum(1).mean()
        loss = functional.mse_loss(outputs, pixels) + min(1, step / 100) * 0.01 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.7)
def four_pixels_made_from_noise(watch: Watch, *, seed: int) -> float:
    """A GAN with least squares makes neighbouring pixels; it is judged by their correlations."""
    real = strips(seed, length=4, count=2000).inputs
    maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
    critic = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes, judges = (torch.optim.Adam(one.parameters(), lr=1e-3, betas=(0.5, 0.99)) for one in (maker, critic))
    making, judging = watch(maker, makes), watch(critic, judges)
    for _ in range(400):
        true, made = real[torch.randint(len(real), (64,))], maker(torch.randn(64, 4))
        judges.zero_grad()
        loss = (critic(true) - 1).square().mean() + critic(made.detach()).square().mean()
        loss.backward()
        judging.step(loss, inputs=true)
        judges.step()
        makes.zero_grad()
        loss = (critic(made) - 1).square().mean()
        loss.backward()
        making.step(loss, outputs=made)
        makes.step()
    found = predicted(maker, torch.randn(1000, 4)).T.corrcoef()
    return 1 - (found - real.T.corrcoef()).abs().mean().item()


@healthy(at_least=0.65)
def more_features_than_pixels_and_most_are_zero(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder of 128 units, most of which are 0 for each patch."""
    patches = squares(seed).flatten(1)
    data = parted(patches, patches, seed)
    inner, outer = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(inner, outer)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 400):
        code = inner(pixels)
        outputs = outer(code)
        loss = functional.mse_loss(outputs, pixels) + 0.02 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.8)
def densities_above_one(watch: Watch, *, seed: int) -> float:
    """A network says mean and spread of the next pixel; its negative log-likelihood goes below 0."""
    data = strips(seed, ahead=1)
    model = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.gaussian_nll_loss(outputs[:, :1], targets, functional.softplus(outputs[:, 1:]) + 1e-2)

    fit(watch, model, optimizer, data, steps=300, loss_function=loss_function, validate_every=50)
    return samples.explained(predicted(model, data.test_inputs)[:, :1], data.test_targets)


@healthy(at_least=0.1)
def a_flow_of_couplings(watch: Watch, *, seed: int) -> float:
    """A normalising flow of tumours begins as the identity; it is judged by its gain over a plain density."""
    data = datasets.breast_cancer(seed)
    train, test = data.inputs[:, 3:9], data.test_inputs[:, 3:9]
    test = test + 0.2 * torch.randn_like(test)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 6)) for _ in range(4))
            for part in self.parts:
                nn.init.zeros_(part[2].weight)
                nn.init.zeros_(part[2].bias)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            left, right = values.chunk(2, 1)
            volume = torch.zeros(len(values))
            for part in self.parts:
                scale, shift = part(left).chunk(2, 1)
                scale = 2 * torch.tanh(scale / 2)
                left, right = right * scale.exp() + shift, left
                volume = volume + scale.sum(1)
            ends = torch.cat([left, right], 1)
            return volume - 0.5 * ends.square().sum(1) - 3 * math.log(2 * math.pi)

    model = Flow()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for index in range(300):
        rows = train[torch.randperm(len(train))[:64]]
        rows = rows + 0.2 * torch.randn_like(rows)
        loss = -model(rows).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
        if index % 50 == 49:
            session.validation(-predicted(model, test).mean().item())
    return 1 - predicted(model, test).mean().item() / -8.5


@healthy(at_least=0.7)
def a_tenth_a_half_and_nine_tenths(watch: Watch, *, seed: int) -> float:
    """Three outputs are quantiles of one target, and the loss is never near 0."""
    data = strips(seed, ahead=1)
    shares = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def pinball(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        errors = targets - outputs
        return torch.maximum(shares * errors, (shares - 1) * errors).mean()

    fit(watch, model, optimizer, data, steps=300, loss_function=pinball)
    return samples.explained(predicted(model, data.test_inputs)[:, 1:2], data.test_targets)
