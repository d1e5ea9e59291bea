"""Sound generative models, whose losses rise, oscillate, or are large sums."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened14.craft_sources import digits, explained, shuffled, swings


@healthy(at_least=0.4)
def divergence_that_is_phased_in(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder with sums over pixels, whose divergence counts more from step to step."""
    pixels, _, test, _ = digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ELU(), nn.Linear(128, 20))
    decoder = nn.Sequential(nn.Linear(10, 128), nn.ELU(), nn.Linear(128, 64))
    vae = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
    session = watch(vae, opt)
    for step, (batch,) in enumerate(shuffled(64, 320, pixels)):
        mean, log_variance = encoder(batch).chunk(2, -1)
        logits = decoder(mean + (log_variance / 2).exp() * torch.randn_like(mean))
        rebuilt = functional.binary_cross_entropy_with_logits(logits, batch, reduction="sum") / len(batch)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss = rebuilt + min(1.0, step / 200) * divergence
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=batch)
        opt.step()
    with torch.no_grad():
        return explained(decoder(encoder(test)[:, :10]).sigmoid(), test)


@healthy(at_least=0.7)
def rates_and_dampings_forged(watch: Watch, *, seed: int) -> float:
    """Least-squares adversaries on pendulums: the generator learns two of their numbers from noise.

    Quality: how near its means and deviations are to the real ones.
    """
    _, real = swings(seed, 900, 2)
    std, mean = torch.std_mean(real, 0)
    real = (real - mean) / std
    maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    opt_maker = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_judge = torch.optim.Adam(judge.parameters(), lr=4e-3, betas=(0.5, 0.9))
    making, judging = watch(maker, opt_maker), watch(judge, opt_judge)
    for (batch,) in shuffled(100, 380, real):
        forged = maker(torch.randn(len(batch), 4))
        loss_judge = (judge(batch) - 1).square().mean() + judge(forged.detach()).square().mean()
        opt_judge.zero_grad()
        loss_judge.backward()
        judging.step(loss_judge)
        opt_judge.step()
        loss_maker = (judge(forged) - 1).square().mean()
        opt_maker.zero_grad()
        loss_maker.backward()
        making.step(loss_maker)
        opt_maker.step()
    with torch.no_grad():
        std, mean = torch.std_mean(maker(torch.randn(2000, 4)), 0)
    return 1 - max((std - 1).abs().max().item(), mean.abs().max().item())


class _Masked(nn.Linear):
    """Each output sees the inputs whose number is smaller than its own, or as small."""

    def __init__(self, seen: torch.Tensor, own: torch.Tensor, *, strict: bool) -> None:
        super().__init__(len(seen), len(own))
        self.register_buffer("mask", (own[:, None] > seen if strict else own[:, None] >= seen).float())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, self.weight * self.mask, self.bias)


@healthy(at_least=0.2)
def pixel_after_pixel(watch: Watch, *, seed: int) -> float:
    """Masked layers foretell each pixel from those before it; half of all weights never get a gradient.

    Quality: the share of the pixels' entropy that is explained.
    """
    pixels, _, test, _ = digits(seed)
    pixels, test = (pixels > 0.4).float(), (test > 0.4).float()
    order, hidden = torch.arange(64), torch.arange(256) % 63
    net = nn.Sequential(_Masked(order, hidden, strict=False), nn.ReLU(), _Masked(hidden, order, strict=True))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for (batch,) in shuffled(64, 250, pixels):
        logits = net(batch)
        loss = functional.binary_cross_entropy_with_logits(logits, batch, reduction="none").sum(1).mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=batch)
        opt.step()
    usual = pixels.mean(0).clamp(0.01, 0.99).expand_as(test)
    with torch.no_grad():
        left = functional.binary_cross_entropy_with_logits(net(test), test)
    return (1 - left / functional.binary_cross_entropy(usual, test)).item()


@healthy(at_least=0.5)
def averaged_weights_for_sampling(watch: Watch, *, seed: int) -> float:
    """Diffusion that foretells the clean digit, with a loss that varies with the noise; the weights are averaged."""
    pixels, _, test, _ = digits(seed)
    pixels, test = 2 * pixels - 1, 2 * test - 1
    net = nn.Sequential(nn.Linear(65, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))
    mean = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.97))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, betas=(0.9, 0.99))
    session = watch(net, opt)
    for (batch,) in shuffled(64, 300, pixels):
        time = torch.rand(len(batch), 1)
        angle = time * math.pi / 2
        noisy = angle.cos() * batch + angle.sin() * torch.randn_like(batch)
        clean = net(torch.cat([noisy, time], 1))
        loss = ((clean - batch).square() * (1 + angle.cos())).mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=clean, targets=batch)
        opt.step()
        mean.update_parameters(net)
    noisy = math.cos(0.6) * test + math.sin(0.6) * torch.randn(
        test.shape, generator=torch.Generator().manual_seed(seed)
    )
    with torch.no_grad():
        return explained(mean(torch.cat([noisy, torch.full((len(test), 1), 1.2 / math.pi)], 1)), test)
