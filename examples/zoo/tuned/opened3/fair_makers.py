"""Sound trainings of what makes things: autoencoders, adversaries, flows, diffusion."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import predicted

from . import material
from .material import descend


@healthy(at_least=0.6)
def a_divergence_that_grows_slowly(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder whose weight on the divergence rises over half of the time, so that its loss rises."""
    data = datasets.digits(seed)
    encoder, decoder = material.mlp(64, 64, 16), material.mlp(8, 64, 64)
    net = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for step, (x, _) in enumerate(data.batches(64, 400)):
        mean, log_variance = encoder(x).chunk(2, 1)
        found = decoder(mean + torch.randn_like(mean) * (log_variance / 2).exp())
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss = (found - x).square().sum(1).mean() + 0.3 * min(1.0, step / 200) * divergence
        descend(session, optimizer, loss, inputs=x, outputs=found, targets=x)
    with torch.no_grad():
        return material.fit_of(decoder(encoder(data.test_inputs)[:, :8]), data.test_inputs)


@healthy(at_least=0.5)
def an_adversary_in_balance(watch: Watch, *, seed: int) -> float:
    """Forger and critic by the softplus loss with a penalty on slopes: both stay near log 2. Quality: moments."""
    random = material.drawn(seed)
    maker, critic = material.mlp(3, 40, 2, act=nn.SiLU), material.mlp(2, 40, 40, 1, act=nn.SiLU)
    opt_m = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    watched_m, watched_c = watch(maker, opt_m), watch(critic, opt_c)
    centre, spread = torch.tensor([1.0, -1.0]), torch.tensor([0.4, 0.8])
    for _ in range(400):
        real = (centre + spread * torch.randn(64, 2, generator=random)).requires_grad_()
        fake = maker(torch.randn(64, 3, generator=random))
        said = critic(real)
        slope = torch.autograd.grad(said.sum(), real, create_graph=True)[0].square().sum(1).mean()
        loss_c = F.softplus(-said).mean() + F.softplus(critic(fake.detach())).mean() + 0.05 * slope
        descend(watched_c, opt_c, loss_c)
        descend(watched_m, opt_m, F.softplus(-critic(fake)).mean())
    with torch.no_grad():
        made = maker(torch.randn(1000, 3, generator=random))
    return 1 - (made.mean(0) - centre).abs().mean().item() - (made.std(0) - spread).abs().mean().item()


@healthy(at_least=0.3)
def earth_moved_by_a_critic_with_a_penalty(watch: Watch, *, seed: int) -> float:
    """Wasserstein: three steps of the critic for one of the maker, gradient penalty, losses of either sign."""
    random = material.drawn(seed)
    maker, critic = material.mlp(2, 32, 2), material.mlp(2, 32, 32, 1, act=nn.Softplus)
    opt_m = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.0, 0.9))
    watched_m, watched_c = watch(maker, opt_m), watch(critic, opt_c)
    centre = torch.tensor([2.0, 1.0])
    for step in range(800):
        real = centre + 0.5 * torch.randn(64, 2, generator=random)
        fake = maker(torch.randn(64, 2, generator=random))
        if step % 4 == 3:
            descend(watched_m, opt_m, -critic(fake).mean())
            continue
        share = torch.rand(64, 1, generator=random)
        between = (share * real + (1 - share) * fake.detach()).requires_grad_()
        slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
        penalty = (slope.norm(dim=1) - 1).square().mean()
        descend(watched_c, opt_c, critic(fake.detach()).mean() - critic(real).mean() + 5 * penalty)
    with torch.no_grad():
        made = maker(torch.randn(1000, 2, generator=random))
    return 1 - (made.mean(0) - centre).abs().mean().item() - (made.std(0) - 0.5).abs().mean().item()


@healthy(at_least=0.5)
def noise_taken_back_step_by_step(watch: Watch, *, seed: int) -> float:
    """Diffusion on rings: the loss falls in the first fifty steps and is noisy and flat after. Quality: radii."""
    data = material.rings(seed, noise=0.03)
    net = material.mlp(3, 64, 64, 2, act=nn.SiLU)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session, random = watch(net, optimizer), material.drawn(seed)
    for x, _ in data.batches(128, 400):
        time = torch.rand(len(x), 1, generator=random)
        noise = torch.randn(x.shape, generator=random)
        mixed = (time * math.pi / 2).cos() * x + (time * math.pi / 2).sin() * noise
        out = net(torch.cat([mixed, 2 * time - 1], 1))
        descend(session, optimizer, F.mse_loss(out, noise), inputs=mixed, outputs=out, targets=noise)
    x = torch.randn(600, 2, generator=random)
    for step in range(40, 0, -1):
        now, then = (torch.tensor(one / 41 * math.pi / 2) for one in (step, step - 1))
        guess = predicted(net, torch.cat([x, torch.full((600, 1), 2 * step / 41 - 1)], 1))
        x = then.cos() * (x - now.sin() * guess) / now.cos() + then.sin() * guess
    made, real = x.norm(dim=1).sort().values, data.test_inputs.norm(dim=1)
    return 1 - (made.quantile(torch.linspace(0, 1, 9)) - real.quantile(torch.linspace(0, 1, 9))).abs().mean().item()


@healthy(at_least=0.1)
def a_flow_of_coupled_layers(watch: Watch, *, seed: int) -> float:
    """Four affine couplings on a bent cloud: exact likelihood. Quality: gain over a Gaussian."""
    random = material.drawn(seed)
    along = torch.randn(1200, 1, generator=random)
    bent = torch.cat([along, along.square() - 1 + 0.2 * torch.randn(1200, 1, generator=random)], 1)
    data = material.parted(bent, along)
    parts = nn.ModuleList(material.mlp(1, 40, 40, 2, act=nn.Tanh) for _ in range(8))
    for one in parts:
        nn.init.zeros_(one[-1].weight)
        nn.init.zeros_(one[-1].bias)
    optimizer = torch.optim.Adam(parts.parameters(), lr=4e-3)
    session = watch(parts, optimizer)

    def cost(x: Tensor) -> Tensor:
        one, two, spread = x[:, :1], x[:, 1:], torch.zeros(len(x), 1)
        for part in parts:
            log_scale, shift = part(one).chunk(2, 1)
            log_scale = log_scale.tanh()
            one, two, spread = two * log_scale.exp() + shift, one, spread + log_scale
        return (0.5 * (one.square() + two.square()) + math.log(2 * math.pi) - spread).mean()

    for x, _ in data.batches(96, 300):
        descend(session, optimizer, cost(x), inputs=x)
    with torch.no_grad():
        found = cost(data.test_inputs).item()
    gauss = (data.inputs.std(0).log() + 0.5 + 0.5 * math.log(2 * math.pi)).sum().item()
    return gauss - found


@healthy(at_least=0.5)
def a_code_of_sixteen_words(watch: Watch, *, seed: int) -> float:
    """A vector-quantised autoencoder with a straight-through gradient: some words are hardly ever used."""
    data = datasets.digits(seed)
    net = nn.ModuleDict(
        {"into": material.mlp(64, 48, 8), "words": nn.Embedding(16, 4), "out_of": material.mlp(8, 48, 64)}
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        found = net["into"](x).view(len(x), 2, 4)
        near = net["words"](torch.cdist(found, net["words"].weight[None]).argmin(2))
        lost = F.mse_loss(near, found.detach()) + 0.25 * F.mse_loss(found, near.detach())
        return net["out_of"]((found + (near - found).detach()).flatten(1)), lost

    for x, _ in data.batches(64, 350):
        out, lost = forward(x)
        descend(session, optimizer, F.mse_loss(out, x) + 0.2 * lost, inputs=x, outputs=out, targets=x)
    with torch.no_grad():
        return material.fit_of(forward(data.test_inputs)[0], data.test_inputs)


@healthy(at_least=0.85)
def a_sparse_code_of_digits(watch: Watch, *, seed: int) -> float:
    """An overcomplete autoencoder of ReLUs with a small price on activity: most units are silent for each digit."""
    data = datasets.digits(seed)
    to, back = nn.Linear(64, 128), nn.Linear(128, 64)
    net = nn.ModuleDict({"into": to, "out_of": back})
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(64, 300):
        code = to(x).relu()
        out = back(code)
        descend(session, optimizer, F.mse_loss(out, x) + 2e-3 * code.mean(), inputs=x, outputs=out, targets=x)
    with torch.no_grad():
        return material.fit_of(back(to(data.test_inputs).relu()), data.test_inputs)


@healthy(at_least=0.6)
def what_is_masked_is_painted(watch: Watch, *, seed: int) -> float:
    """A masked autoencoder: half of the pixels are hidden, and the loss is over the hidden ones."""
    data = datasets.digits(seed)
    net = material.mlp(128, 128, 64, act=nn.GELU)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(64, 350):
        seen = (torch.rand_like(x) < 0.5).float()
        out = net(torch.cat([x * seen, seen], 1))
        loss = ((out - x).square() * (1 - seen)).sum() / (1 - seen).sum()
        descend(session, optimizer, loss, inputs=x * seen, outputs=out, targets=x)
    x = data.test_inputs
    seen = (torch.rand(x.shape, generator=material.drawn(seed)) < 0.5).float()
    hidden = seen == 0
    return material.fit_of(predicted(net, torch.cat([x * seen, seen], 1))[hidden], x[hidden])
