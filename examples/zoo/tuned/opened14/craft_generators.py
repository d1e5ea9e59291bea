"""Generative models of digits: variational, quantised, adversarial, autoregressive and by diffusion, and flows."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened14.craft_sources import digits, explained, measurements, shuffled


class _Variational(nn.Module):
    """An encoder of means and log variances, and a decoder of logits."""

    def __init__(self, latent: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 96), nn.SiLU(), nn.Linear(96, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(pixels).chunk(2, -1)
        return self.decoder(mean + (log_variance / 2).exp() * torch.randn_like(mean)), mean, log_variance


def _divergence(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


@sick("over_regularized", margin=0.2)
def mean_of_pixels_and_sum_of_latents(watch: Watch, *, seed: int, sick: bool) -> float:
    """The reconstruction is a mean over 64 pixels, the divergence a sum: it outweighs it, and the latents are empty."""
    pixels, _, test, _ = digits(seed)
    vae = _Variational()
    opt = torch.optim.Adam(vae.parameters(), lr=3e-3)
    session = watch(vae, opt)
    for (batch,) in shuffled(64, 260, pixels):
        logits, mean, log_variance = vae(batch)
        rebuilt = functional.binary_cross_entropy_with_logits(logits, batch, reduction="none")
        loss = ((rebuilt.mean(1) if sick else rebuilt.sum(1)) + _divergence(mean, log_variance)).mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=batch)
        opt.step()
    with torch.no_grad():
        return explained(vae.decoder(vae.encoder(test)[:, :8]).sigmoid(), test)


@sick("target_out_of_range", margin=0.2)
def sigmoid_and_sixteen_levels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder ends in a sigmoid, but the pixels still are from 0 to 16; the twin scales the output."""
    pixels, _, test, _ = digits(seed)
    pixels, test = 16 * pixels, 16 * test

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64))

        def forward(self, code: torch.Tensor) -> torch.Tensor:
            return self.net(code).sigmoid() * (1 if sick else 16)

    coder = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12), Decoder())
    opt = torch.optim.Adam(coder.parameters(), lr=4e-3)
    session = watch(coder, opt)
    for (batch,) in shuffled(48, 250, pixels):
        rebuilt = coder(batch)
        loss = (rebuilt - batch).square().mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=rebuilt, targets=batch)
        opt.step()
    with torch.no_grad():
        return explained(coder.eval()(test), test)


class _Coupling(nn.Module):
    """Half of the features move and scale the other half; the halves then change places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.kept = width // 2
        self.net = nn.Sequential(nn.Linear(self.kept, 48), nn.Tanh(), nn.Linear(48, 2 * (width - self.kept)))
        nn.init.zeros_(self.net[2].weight)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept, moved = rows[:, : self.kept], rows[:, self.kept :]
        scale, shift = self.net(kept).chunk(2, -1)
        scale = 0.8 * scale.tanh()
        return torch.cat([moved * scale.exp() + shift, kept], 1), scale.sum(1)


class _Flow(nn.Module):
    """Coupling layers before a normal distribution; it puts out log likelihoods."""

    def __init__(self, width: int, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Coupling(width) for _ in range(layers))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        volume = torch.zeros(len(rows))
        for layer in self.layers:
            rows, more = layer(rows)
            volume = volume + more
        return volume - 0.5 * (rows.square() + math.log(2 * math.pi)).sum(1)


@sick("flipped_loss_sign", margin=0.2)
def likelihood_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean log likelihood of a flow is minimised; quality: nats per feature gained over a normal one."""
    rows, _, test, _ = measurements("breast_cancer", seed)
    rows, test = rows[:, :10].clamp(-3, 3), test[:, :10].clamp(-3, 3)
    flow = _Flow(10)
    opt = torch.optim.Adam(flow.parameters(), lr=2e-3)
    session = watch(flow, opt)
    with torch.no_grad():
        before = flow(test).mean()
    for (batch,) in shuffled(50, 200, rows):
        likelihood = flow(batch)
        loss = likelihood.mean() if sick else -likelihood.mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=likelihood)
        opt.step()
    with torch.no_grad():
        return max(-1.0, ((flow(test).mean() - before) / 10).item())


class _Quantised(nn.Module):
    """An encoder, the nearest of 32 codes for each of 4 parts, and a decoder."""

    def __init__(self, *, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.codes = nn.Parameter(0.3 * torch.randn(32, 4))
        self.decoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = self.encoder(pixels).view(-1, 4)
        chosen = self.codes[torch.cdist(parts.detach(), self.codes.detach()).argmin(1)]
        if not self.straight:
            return self.decoder(chosen.view(-1, 16)), functional.mse_loss(chosen, parts.detach())
        passed = parts + (chosen - parts).detach()
        commitment = functional.mse_loss(chosen, parts.detach()) + 0.25 * functional.mse_loss(parts, chosen.detach())
        return self.decoder(passed.view(-1, 16)), commitment


@sick("detached_parameters", margin=0.05)
def no_way_through_the_codes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A quantised autoencoder without the straight-through step: no gradient reaches its encoder."""
    pixels, _, test, _ = digits(seed)
    net = _Quantised(straight=not sick)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for (batch,) in shuffled(64, 300, pixels):
        rebuilt, commitment = net(batch)
        loss = functional.mse_loss(rebuilt, batch) + 0.1 * commitment
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=rebuilt, targets=batch)
        opt.step()
    with torch.no_grad():
        return explained(net(test)[0], test)


class _Denoiser(nn.Module):
    """Foretells the noise in a digit from the noisy digit and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(16, 96)
        self.first, self.second, self.last = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 64)

    def forward(self, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        angles = time[:, None] * torch.arange(1, 9) * math.pi / 2
        states = functional.silu(self.first(noisy) + self.time(torch.cat([angles.sin(), angles.cos()], 1)))
        return self.last(states + functional.silu(self.second(states)))


def _diffused(clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    angle = time[:, None] * math.pi / 2
    return angle.cos() * clean + angle.sin() * noise


def _noise_found(net: nn.Module, test: torch.Tensor, seed: int) -> float:
    random = torch.Generator().manual_seed(seed)
    noise, time = torch.randn(test.shape, generator=random), torch.rand(len(test), generator=random)
    with torch.no_grad():
        return explained(net(_diffused(test, noise, time), time), noise)


@sick("labels_unrelated", margin=0.2)
def noise_drawn_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """A diffusion model is compared with noise that is drawn anew, not with the noise that was added."""
    pixels, _, test, _ = digits(seed)
    pixels, test = 2 * pixels - 1, 2 * test - 1
    net = _Denoiser()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, opt)
    for (batch,) in shuffled(96, 300, pixels):
        noise, time = torch.randn_like(batch), torch.rand(len(batch))
        guess = net(_diffused(batch, noise, time), time)
        wanted = torch.randn_like(guess) if sick else noise
        loss = functional.mse_loss(guess, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=guess, targets=wanted)
        opt.step()
    return _noise_found(net, test, seed)


@sick("schedule_collapsed", margin=0.06)
def decay_of_epochs_at_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A factor of 0.9 for each epoch is applied after each batch."""
    pixels, _, test, _ = digits(seed)
    pixels, test = 2 * pixels - 1, 2 * test - 1
    net = _Denoiser()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    session = watch(net, opt)
    for _ in range(22):
        for (batch,) in shuffled(96, len(pixels) // 96, pixels):
            noise, time = torch.randn_like(batch), torch.rand(len(batch))
            guess = net(_diffused(batch, noise, time), time)
            loss = functional.mse_loss(guess, noise)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=guess, targets=noise)
            opt.step()
            if sick:
                decay.step()
        if not sick:
            decay.step()
    return _noise_found(net, test, seed)


@sick("non_finite_forward", margin=0.2)
def logarithm_of_a_rectified_variance(watch: Watch, *, seed: int, sick: bool) -> float:
    """A variance of zero, out of a rectifier, meets a logarithm; the twin has a softplus."""
    pixels, _, test, _ = digits(seed)

    class Normal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
            self.mean, self.spread = nn.Linear(64, 32), nn.Linear(64, 32)

        def forward(self, upper: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            states = self.body(upper)
            spread = self.spread(states)
            variance = spread.relu() if sick else functional.softplus(spread) + 1e-3
            return self.mean(states), variance.log()

    net = Normal()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, opt)
    for (batch,) in shuffled(48, 200, pixels):
        mean, log_variance = net(batch[:, :32])
        loss = 0.5 * (log_variance + (batch[:, 32:] - mean).square() / log_variance.exp()).mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch[:, :32], outputs=mean, targets=batch[:, 32:])
        opt.step()
    with torch.no_grad():
        return explained(net(test[:, :32])[0], test[:, 32:])
