"""Latent spaces with their penalties."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.tuned.opened51.i_bench import mlp


class Variational(nn.Module):
    """A variational autoencoder."""

    def __init__(self, latents: int = 8) -> None:
        super().__init__()
        self.encoder = mlp(64, 64, 2 * latents, activation=nn.SiLU)
        self.decoder = mlp(latents, 64, 64, activation=nn.SiLU)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.encoder(images).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (spread / 2).exp() if self.training else mean
        apart = (mean.square() + spread.exp() - 1 - spread).sum(1) / 2
        return self.decoder(drawn), apart


def _rebuilt(model: Variational, images: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return samples.explained(model(images)[0], images)


@sick("over_regularized", margin=0.2)
def divergence_in_sums_and_errors_in_means(watch: Watch, *, seed: int, sick: bool) -> float:
    """The divergence is a sum over latents, the error a mean of 64 pixels: latents collapse; the twin adds both."""
    data = datasets.digits(seed)
    scale, test_images = (data.inputs - 0.3) / 0.37, (data.test_inputs - 0.3) / 0.37
    seen = Data(scale, scale, test_images, test_images)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in seen.batches(64, 300):
        optimizer.zero_grad()
        rebuilt, apart = model(images)
        errors = (rebuilt - images).square()
        loss = (errors.mean() if sick else errors.sum(1).mean() / 2) + apart.mean()
        loss.backward()
        session.step(loss, inputs=images, outputs=rebuilt, targets=images)
        optimizer.step()
    return _rebuilt(model, test_images)


@healthy(at_least=0.4)
def variational_digits_with_rising_divergence(watch: Watch, *, seed: int) -> float:
    """The divergence has a weight of 0 at first and grows, so its own term rises."""
    data = datasets.digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (images, _) in enumerate(data.batches(64, 300)):
        optimizer.zero_grad()
        rebuilt, apart = model(images)
        loss = (rebuilt - images).square().sum(1).mean() + 0.2 * min(1.0, step / 150) * apart.mean()
        loss.backward()
        session.step(loss, inputs=images, outputs=rebuilt, targets=images)
        optimizer.step()
    return _rebuilt(model, data.test_inputs)


@healthy(at_least=0.5)
def rare_features_by_a_penalty_of_activity(watch: Watch, *, seed: int) -> float:
    """An overcomplete autoencoder with ReLU is made sparse by a small penalty, so that many activations are 0."""
    data = datasets.digits(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 250):
        optimizer.zero_grad()
        features = encoder(images)
        rebuilt = decoder(features)
        loss = functional.mse_loss(rebuilt, images) + 1e-3 * features.abs().mean()
        loss.backward()
        session.step(loss, inputs=images, outputs=rebuilt, targets=images)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_inputs)


@healthy(at_least=0.15)
def forger_and_judge_of_ink_per_row(watch: Watch, *, seed: int) -> float:
    """A generator and a discriminator play on digits' ink per row, whose covariances are to agree."""
    data = datasets.digits(seed)
    rows, test_rows = (part.view(-1, 8, 8).mean(2) for part in (data.inputs, data.test_inputs))
    std, mean = torch.std_mean(rows, 0)
    real_rows, test_rows = (rows - mean) / std, (test_rows - mean) / std
    forger, judge = mlp(12, 48, 48, 8, activation=nn.SiLU), mlp(8, 48, 48, 1, activation=nn.SiLU)
    making = torch.optim.Adam(forger.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judging = torch.optim.Adam(judge.parameters(), lr=4e-3, betas=(0.5, 0.99))
    session = watch(nn.ModuleDict({"forger": forger, "judge": judge}), [making, judging])
    for real, _ in Data(real_rows, data.targets, test_rows, data.test_targets).batches(64, 300):
        made = forger(torch.randn(len(real), 12))
        judging.zero_grad()
        verdict = functional.softplus(-judge(real)).mean() + functional.softplus(judge(made.detach())).mean()
        verdict.backward()
        judging.step()
        making.zero_grad()
        loss = functional.softplus(-judge(made)).mean()
        loss.backward()
        session.step(loss, inputs=real, outputs=made)
        making.step()
    with torch.no_grad():
        made = forger(torch.randn(400, 12))
    wanted = torch.cov(test_rows.T)
    return 1 - ((torch.cov(made.T) - wanted).norm() / wanted.norm()).item()
