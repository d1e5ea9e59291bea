"""Sound trainings of models that draw, code and denoise."""

import itertools
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import predicted


def _mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inward, outward in itertools.pairwise(widths):
        layers += [nn.Linear(inward, outward), act()]
    return nn.Sequential(*layers[:-1])


@healthy(at_least=0.6)
def gan_of_the_progress_of_patients(watch: Watch, *, seed: int) -> float:
    """A generator of one number and a critic that fight to the end. Quality: how near the quantiles come."""
    data = datasets.diabetes(seed)
    maker, judge = _mlp(2, 24, 1), _mlp(1, 24, 24, 1, act=lambda: nn.LeakyReLU(0.2))
    for_maker = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
    for_judge = torch.optim.Adam(judge.parameters(), lr=4e-3, betas=(0.5, 0.999))
    maker_session, judge_session = watch(maker, for_maker), watch(judge, for_judge)
    bce = functional.binary_cross_entropy_with_logits
    for _, real in data.batches(110, 300):
        ones, zeros = torch.ones_like(real), torch.zeros_like(real)
        fake = maker(torch.randn(len(real), 2))
        judge_loss = bce(judge(real), 0.9 * ones) + bce(judge(fake.detach()), zeros)
        for_judge.zero_grad()
        judge_loss.backward()
        judge_session.step(judge_loss)
        for_judge.step()
        maker_loss = bce(judge(fake), ones)
        for_maker.zero_grad()
        maker_loss.backward()
        maker_session.step(maker_loss)
        for_maker.step()
    levels = torch.linspace(0.05, 0.95, 19)
    drawn = predicted(maker, torch.randn(4000, 2))
    return 1 - (drawn.quantile(levels) - data.test_targets.quantile(levels)).abs().mean().item()


class Vae(nn.Module):
    def __init__(self, code: int = 8) -> None:
        super().__init__()
        self.encoder = _mlp(64, 64, 2 * code)
        self.decoder = _mlp(code, 64, 64)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, logvar = self.encoder(pixels).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * logvar).exp() if self.training else mean
        return self.decoder(code), mean, logvar


@healthy(at_least=0.3)
def vae_of_digits_with_bernoulli_pixels(watch: Watch, *, seed: int) -> float:
    """The textbook's VAE: sums over pixels and codes, means over rows, and Adam at 0.002."""
    data = datasets.digits(seed)
    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        logits, mean, logvar = model(pixels)
        drawn = functional.binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(1)
        divergence = -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(1)
        loss = (drawn + divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0].sigmoid(), data.test_inputs)


@healthy(at_least=0.6)
def noise_added_to_pictures_and_taken_away(watch: Watch, *, seed: int) -> float:
    """A convolutional net takes noise away from pictures of digits, of a strength drawn for each batch."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 16, 3, padding=1), nn.GELU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 180)
    session = watch(model, optimizer)
    for images, _ in data.batches(48, 180):
        noisy = images + (0.1 + 0.3 * torch.rand(())) * torch.randn_like(images)
        clean = model(noisy)
        loss = functional.mse_loss(clean, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=clean, targets=images)
        optimizer.step()
        cosine.step()
    noisy = data.test_inputs + 0.25 * torch.randn_like(data.test_inputs)
    return samples.explained(predicted(model, noisy), data.test_inputs)


@healthy(at_least=0.3)
def diffusion_of_thirteen_measurements(watch: Watch, *, seed: int) -> float:
    """A net guesses the noise in a wine's measurements at a random time; much of the loss can never be explained."""
    data = datasets.wine(seed)
    model = _mlp(13 + 8, 96, 96, 13, act=nn.SiLU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    waves = 2.0 ** torch.arange(4)

    def noised(clean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        time = torch.rand(len(clean), 1)
        noise = torch.randn_like(clean)
        mixed = torch.cos(time * math.pi / 2) * clean + torch.sin(time * math.pi / 2) * noise
        return torch.cat([mixed, (time * waves).sin(), (time * waves).cos()], 1), noise

    session = watch(model, optimizer)
    for clean, _ in data.batches(133, 300):
        inputs, noise = noised(clean)
        guess = model(inputs)
        loss = functional.mse_loss(guess, noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=guess, targets=noise)
        optimizer.step()
    inputs, noise = noised(data.test_inputs.repeat(20, 1))
    return samples.explained(predicted(model, inputs), noise)


class Quantised(nn.Module):
    """Codes that are rounded to -1, 0 or 1, with a gradient that passes straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = _mlp(64, 64, 24)
        self.decoder = _mlp(24, 64, 64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        code = self.encoder(pixels).tanh()
        return self.decoder(code + (code.round() - code).detach())


@healthy(at_least=0.5)
def finite_scalar_codes_of_digits(watch: Watch, *, seed: int) -> float:
    """An autoencoder with rounded codes and a straight-through gradient."""
    train, test = samples.split(seed, datasets.digits(seed).inputs)
    model = Quantised()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(18):
        for (pixels,) in DataLoader(train, batch_size=64, shuffle=True):
            drawn = model(pixels)
            loss = functional.mse_loss(drawn, pixels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=drawn, targets=pixels)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[0])


@healthy(at_least=0.25)
def half_of_the_patches_of_a_digit_hidden(watch: Watch, *, seed: int) -> float:
    """A masked autoencoder sees half of the 2x2 patches of a digit, and is asked for the others alone."""
    data = datasets.digits(seed)
    model = _mlp(128, 128, 128, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def hidden(rows: int) -> torch.Tensor:
        return (torch.rand(rows, 1, 4, 4) < 0.5).float().repeat_interleave(2, 2).repeat_interleave(2, 3).flatten(1)

    session = watch(model, optimizer)
    for pixels, _ in data.batches(96, 350):
        mask = hidden(len(pixels))
        drawn = model(torch.cat([pixels * (1 - mask), mask], 1))
        loss = ((drawn - pixels).square() * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    mask = hidden(len(data.test_inputs))
    drawn = predicted(model, torch.cat([data.test_inputs * (1 - mask), mask], 1))
    error = ((drawn - data.test_inputs).square() * mask).sum() / mask.sum()
    return 1 - (error / data.test_inputs.var(0).mean()).item()
