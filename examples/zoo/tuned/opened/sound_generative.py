"""Sound trainings that make, describe or compress what they see."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


@healthy(at_least=0.5)
def a_critic_with_a_hinge(watch: Watch, *, seed: int) -> float:
    """A GAN with a hinge and spectral norm, two steps of the critic for one of the generator; its average is judged."""
    real = datasets.wine(seed).inputs[:, [0, 6]]
    generator = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    normed = nn.utils.parametrizations.spectral_norm
    critic = nn.Sequential(normed(nn.Linear(2, 32)), nn.LeakyReLU(0.2), normed(nn.Linear(32, 1)))
    making = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    judging = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.5, 0.9))
    makes, judges = watch(generator, making), watch(critic, judging)
    average = AveragedModel(generator, multi_avg_fn=get_ema_multi_avg_fn(0.97))
    for _ in range(200):
        for _ in range(2):
            true, made = real[torch.randint(len(real), (40,))], generator(torch.randn(40, 6)).detach()
            loss = (1 - critic(true)).relu().mean() + (1 + critic(made)).relu().mean()
            judging.zero_grad()
            loss.backward()
            judges.step(loss)
            judging.step()
        loss = -critic(generator(torch.randn(40, 6))).mean()
        making.zero_grad()
        loss.backward()
        makes.step(loss)
        making.step()
        average.update_parameters(generator)
    with torch.no_grad():
        made = average(torch.randn(600, 6))
    return 1 - (made.mean(0) - real.mean(0)).abs().max().item()


@healthy(at_least=0.35)
def a_divergence_that_is_annealed(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder whose divergence gets its weight step by step: the loss rises in between."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))
    decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64))
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=4e-3)
    session = watch(nn.ModuleList([encoder, decoder]), optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 260)):
        mean, log_std = encoder(pixels).chunk(2, 1)
        logits = decoder(mean + log_std.exp() * torch.randn_like(mean))
        apart = torch.distributions.kl_divergence(
            torch.distributions.Normal(mean, log_std.exp()), torch.distributions.Normal(0.0, 1.0)
        )
        each = functional.binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(1).mean()
        loss = each + min(1.0, step / 150) * apart.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(encoder(data.test_inputs)[:, :8]).sigmoid(), data.test_inputs)


@healthy(at_least=0.2)
def a_density_that_exceeds_one(watch: Watch, *, seed: int) -> float:
    """Mean and variance of a digit's lower half: the likelihood's logarithm is positive, so that the loss is not."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for upper, lower in DataLoader(train, 64, shuffle=True):
            mean, spread = model(upper).chunk(2, 1)
            loss = functional.gaussian_nll_loss(mean, lower, functional.softplus(spread) + 1e-3)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=mean, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, :32], test.tensors[1])


class _TopK(nn.Module):
    """A code of 160 units of which the 12 largest are kept; the decoder is the encoder's transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(160, 64) / 8), nn.Parameter(torch.zeros(64))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        code = ((pixels - self.bias) @ self.weight.T).relu()
        kept = torch.zeros_like(code).scatter(1, code.topk(12, 1).indices, 1.0)
        return (code * kept) @ self.weight + self.bias


@healthy(at_least=0.5)
def the_twelve_largest_of_a_code(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder with tied weights: nine tenths of its code are zero."""
    data = datasets.digits(seed)
    model = _TopK()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 200):
        painted = model(pixels)
        loss = functional.mse_loss(painted, pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=painted, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_inputs)
