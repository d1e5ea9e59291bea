"""Sound trainings with odd aims: games, densities, views of the same thing, rare classes, rewards and sweeps."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted


@healthy(at_least=0.6)
def a_forger_and_an_expert(watch: Watch, *, seed: int) -> float:
    """A GAN with label smoothing on a ring: both losses stand near what they were. Quality: nearness to the ring."""
    random = torch.Generator().manual_seed(seed)
    forger = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
    expert = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    opt_f = torch.optim.Adam(forger.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_e = torch.optim.Adam(expert.parameters(), lr=2e-3, betas=(0.5, 0.9))
    watched_f, watched_e = watch(forger, opt_f), watch(expert, opt_e)
    judge = F.binary_cross_entropy_with_logits
    for _ in range(500):
        angle = 2 * math.pi * torch.rand(64, 1, generator=random)
        real = torch.cat([angle.cos(), angle.sin()], 1)
        fake = forger(torch.randn(64, 4, generator=random))
        opt_e.zero_grad()
        loss_e = judge(expert(real), torch.full((64, 1), 0.9)) + judge(expert(fake.detach()), torch.zeros(64, 1))
        loss_e.backward()
        watched_e.step(loss_e)
        opt_e.step()
        opt_f.zero_grad()
        loss_f = judge(expert(fake), torch.ones(64, 1))
        loss_f.backward()
        watched_f.step(loss_f)
        opt_f.step()
    with torch.no_grad():
        return 1 - (forger(torch.randn(1000, 4, generator=random)).norm(dim=1) - 1).abs().mean().item()


@healthy(at_least=0.35)
def a_code_with_free_bits(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder whose divergence is not counted below a floor."""
    data = datasets.digits(seed)
    up, down = (
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16)),
        nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64)),
    )
    net = nn.ModuleDict({"up": up, "down": down})
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(64, 300):
        mean, log = up(x).chunk(2, 1)
        logits = down(mean + torch.randn_like(mean) * (log / 2).exp())
        divergence = ((mean**2 + log.exp() - 1 - log) / 2).mean(0).clamp(min=0.1).sum()
        error = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
        loss = error + divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=x)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(down(up(data.test_inputs)[:, :8]).sigmoid(), data.test_inputs)


@healthy(at_least=0.7)
def two_noisy_views_of_a_numeral(watch: Watch, *, seed: int) -> float:
    """Self-supervised: views of one numeral are to be found among all others; labels serve for centres at the end."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(96, 200):
        views = [x * (torch.rand_like(x) > 0.2) + 0.1 * torch.randn_like(x) for _ in range(2)]
        a, b = (F.normalize(net(view), dim=1) for view in views)
        logits = a @ b.T / 0.2
        loss = F.cross_entropy(logits, torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views[0])
        optimizer.step()
    with torch.no_grad():
        codes, test = F.normalize(net(data.inputs), dim=1), F.normalize(net(data.test_inputs), dim=1)
        centres = torch.stack([codes[data.targets == digit].mean(0) for digit in range(10)])
        return samples.accuracy(test @ centres.T, data.test_targets)


@healthy(at_least=0.8)
def one_in_thirty_under_a_focal_loss(watch: Watch, *, seed: int) -> float:
    """A rare class is weighed and easy rows are discounted: the loss is small from its start. Quality: mean recall."""
    data = datasets.digits(seed)
    rare = (data.targets == 3).nonzero().squeeze(1)
    keep = torch.cat([(data.targets != 3).nonzero().squeeze(1), rare[: len(rare) // 3]])
    x, y = data.inputs[keep], (data.targets[keep] == 3).float()
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for _ in range(8):
        for rows in torch.randperm(len(x)).split(64):
            logits = net(x[rows]).squeeze(1)
            each = F.binary_cross_entropy_with_logits(logits, y[rows], reduction="none")
            weight = torch.where(y[rows] > 0, 0.95, 0.05)
            loss = (weight * (1 - (-each).exp()) ** 2 * each).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[rows], outputs=logits, targets=y[rows])
            optimizer.step()
    with torch.no_grad():
        said, true = net(data.test_inputs).squeeze(1) > 0, data.test_targets == 3
        return ((said[true].float().mean() + (~said)[~true].float().mean()) / 2).item()


@healthy(at_least=0.3)
def a_mixture_whose_loss_falls_below_zero(watch: Watch, *, seed: int) -> float:
    """A mixture density for a curve with two branches; densities above one make the loss negative."""
    random = torch.Generator().manual_seed(seed)
    place = torch.rand(2000, 1, generator=random) * 2 - 1
    sign = torch.randint(2, (2000, 1), generator=random) * 2 - 1
    value = sign * (0.3 + 0.5 * place**2) + 0.02 * torch.randn(2000, 1, generator=random)
    net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)

    def likelihood(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        share, mean, log = net(x).chunk(3, 1)
        each = -0.5 * ((y - mean) / log.exp()) ** 2 - log - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(share.log_softmax(1) + each, 1).mean()

    for _ in range(300):
        rows = torch.randint(1500, (64,), generator=random)
        loss = -likelihood(place[rows], value[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        session.step(loss, inputs=place[rows], targets=value[rows])
        optimizer.step()
    with torch.no_grad():
        return likelihood(place[1500:], value[1500:]).item()


@healthy(at_least=0.8)
def values_that_chase_themselves(watch: Watch, *, seed: int) -> float:
    """Q-learning on a corridor with a target net: the loss rises as values spread. Quality: right moves."""
    random = torch.Generator().manual_seed(seed)
    length = 8
    net = nn.Sequential(nn.Linear(length, 32), nn.ReLU(), nn.Linear(32, 2))
    slow = nn.Sequential(nn.Linear(length, 32), nn.ReLU(), nn.Linear(32, 2)).requires_grad_(False)
    slow.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    places = torch.eye(length)
    for step in range(500):
        at, move = torch.randint(length - 1, (64,), generator=random), torch.randint(2, (64,), generator=random)
        after = (at + 2 * move - 1).clamp(min=0)
        done = (after == length - 1).float()
        wanted = done + 0.9 * (1 - done) * slow(places[after]).amax(1)
        chosen = net(places[at]).gather(1, move[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(chosen, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places[at], outputs=chosen, targets=wanted)
        optimizer.step()
        if step % 25 == 24:
            slow.load_state_dict(net.state_dict())
    with torch.no_grad():
        return net(places[:-1]).argmax(1).float().mean().item()


@healthy(at_least=0.7)
def thresholds_in_order(watch: Watch, *, seed: int) -> float:
    """Ordinal regression: three questions of "more than", answered by one score and three thresholds."""
    data = datasets.diabetes(seed, raw_targets=True)
    edges = data.targets.quantile(torch.tensor([0.25, 0.5, 0.75]))
    more, test = (data.targets > edges).float(), (data.test_targets > edges).float()

    class Ordered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
            self.thresholds = nn.Parameter(torch.tensor([-1.0, 0.0, 1.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.score(x) - self.thresholds

    net = Ordered()
    pairs = Data(data.inputs, more, data.test_inputs, test)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    loss = F.binary_cross_entropy_with_logits
    fit(watch, net, optimizer, pairs, steps=160, batch_size=32, loss_function=loss, validate_every=40)
    return ((predicted(net, data.test_inputs) > 0) == (test > 0.5)).float().mean().item()


@healthy(at_least=0.85)
def a_sweep_of_rates_and_then_a_start_anew(watch: Watch, *, seed: int) -> float:
    """Sixty steps from 1e-5 to 0.3 find a rate, the weights are restored, and the training begins."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-5, momentum=0.9)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(64, 260)):
        if step < 60:
            optimizer.param_groups[0]["lr"] = 1e-5 * 3e4 ** (step / 59)
        elif step == 60:
            net.load_state_dict(kept)
            optimizer.state.clear()
            optimizer.param_groups[0]["lr"] = 0.05
        out = net(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


@healthy(at_least=0.25)
def letters_guessed_from_their_neighbours(watch: Watch, *, seed: int) -> float:
    """A masked language model with norms before its blocks: five targets of six are ignored."""
    data = datasets.text(seed, length=20, count=1200)
    mask = datasets.CHARACTERS

    class Guesser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.place = nn.Embedding(mask + 1, 32), nn.Parameter(0.1 * torch.randn(20, 32))
            block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
            self.out = nn.Linear(32, mask)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.out(self.blocks(self.embed(codes) + self.place))

    net = Guesser()
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)

    def hidden(codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.rand(codes.shape) < 0.16
        return codes.masked_fill(chosen, mask), codes.masked_fill(~chosen, -100)

    for codes, _ in data.batches(48, 200):
        shown, wanted = hidden(codes)
        logits = net(shown)
        loss = F.cross_entropy(logits.transpose(1, 2), wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=shown, outputs=logits, targets=wanted)
        optimizer.step()
    shown, wanted = hidden(data.test_inputs)
    guessed = predicted(net, shown).argmax(-1)
    return (guessed == wanted)[wanted >= 0].float().mean().item()


@healthy(at_least=0.85)
def a_number_and_a_picture_at_once(watch: Watch, *, seed: int) -> float:
    """A class and a reconstruction from one body, whose losses differ a hundredfold and are weighed by hand."""
    data = datasets.digits(seed)
    body, name, paint = nn.Sequential(nn.Linear(64, 48), nn.ReLU()), nn.Linear(48, 10), nn.Linear(48, 64)
    net = nn.ModuleList([body, name, paint])
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 200):
        features = body(x)
        logits = name(features)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05) + 5.0 * F.mse_loss(paint(features), x)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=y)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(name(body(data.test_inputs)), data.test_targets)


@healthy(at_least=0.7)
def outliers_under_huber(watch: Watch, *, seed: int) -> float:
    """One target in thirty is off by far, and a Huber loss does not mind: single losses are large for good."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(1500, 6, generator=random)
    y = torch.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(1500, 1, generator=random)
    off = torch.rand(1200, 1, generator=random) < 0.03
    train = y[:1200] + off * 30 * torch.randn(1200, 1, generator=random)
    data = Data(x[:1200], train, x[1200:], y[1200:])
    net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=8e-3)
    fit(watch, net, optimizer, data, steps=400, loss_function=nn.HuberLoss(delta=0.5))
    return samples.explained(predicted(net, data.test_inputs), data.test_targets)
