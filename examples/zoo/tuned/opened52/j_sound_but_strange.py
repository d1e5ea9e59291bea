"""Sound trainings that look strange: games, codes, experts, adapters and frozen parts."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened52.j_stock import flat_numerals, of_pair, share_explained, themselves


@healthy(at_least=0.7)
def a_forger_of_two_columns_of_wine(watch: Watch, *, seed: int) -> float:
    """A GAN learns the two main directions of wines' measurements; its losses go up and down around a balance."""
    rows = datasets.wine(seed).inputs
    real = rows @ torch.linalg.svd(rows, full_matrices=False).Vh[:2].T
    real = real / real.std(0)
    forger = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(forger.parameters(), lr=1e-3, betas=(0.5, 0.99))
    other = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.99))
    session = watch(forger, optimizer)
    for _ in range(400):
        drawn, noise = real[torch.randint(len(real), (64,))], torch.randn(64, 4)
        apart = functional.softplus(-judge(drawn)).mean() + functional.softplus(judge(forger(noise).detach())).mean()
        other.zero_grad()
        apart.backward()
        other.step()
        forged = forger(noise)
        loss = functional.softplus(-judge(forged)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noise, outputs=forged)
        optimizer.step()
    made = predicted(forger, torch.randn(1000, 4))
    return 1 - 0.5 * ((made.mean(0) - real.mean(0)).norm() + (made.std(0) - real.std(0)).norm()).item()


class Variational(nn.Module):
    """An autoencoder whose code is a Gaussian, which is the prior at first."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 24))
        self.decoder = nn.Sequential(nn.Linear(12, 96), nn.SiLU(), nn.Linear(96, 64))
        nn.init.zeros_(self.encoder[2].weight)
        nn.init.zeros_(self.encoder[2].bias)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(pixels).chunk(2, 1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        return self.decoder(mean + noise * (0.5 * log_variance).exp()), divergence


@healthy(at_least=0.4)
def a_code_that_begins_at_its_prior(watch: Watch, *, seed: int) -> float:
    """A VAE whose divergence begins at exactly 0, and whose weight on it rises over the first hundred steps."""
    data = flat_numerals(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        outputs, divergence = model(pixels)
        error = (outputs - pixels).square().sum(1) / 2
        loss = (error + min(1.0, (step + 1) / 100) * divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_inputs)


class Adapted(nn.Module):
    """A frozen linear layer with a product of two small matrices beside it, of which one begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + 2 * (rows @ self.down.T) @ self.up.T


@healthy(at_least=0.85)
def two_thin_matrices_for_mirrored_digits(watch: Watch, *, seed: int) -> float:
    """A finished classifier of digits learns mirrored ones by LoRA: ``down`` has no gradient in the first step."""
    data = flat_numerals(seed)
    base = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    first = torch.optim.Adam(base.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 150):
        first.zero_grad()
        functional.cross_entropy(base(pixels), labels).backward()
        first.step()
    mirrored = Data(*(part.unflatten(1, (8, 8)).flip(2).flatten(1) if part.dim() > 1 else part
                      for part in (data.inputs, data.targets, data.test_inputs, data.test_targets)))  # fmt: skip
    model = nn.Sequential(Adapted(base[0], 8), nn.ReLU(), Adapted(base[2], 8), nn.ReLU(), Adapted(base[4], 8))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    fit(watch, model, optimizer, mirrored, steps=250, batch_size=48)
    return accuracy(model, mirrored)


class Switch(nn.Module):
    """Twelve experts, of which a row goes to one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(64, 12), nn.Linear(64, 10)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 64)) for _ in range(12))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.gate(rows).softmax(1).max(1)
        mixed = torch.zeros_like(rows)
        for index, expert in enumerate(self.experts):
            mine = (chosen == index).nonzero()[:, 0]
            if len(mine):
                mixed = mixed.index_add(0, mine, shares[mine, None] * expert(rows[mine]))
        return self.head(rows + mixed)


@healthy(at_least=0.9)
def experts_that_nobody_asks(watch: Watch, *, seed: int) -> float:
    """Each digit goes to one of twelve experts; in a batch of 32 some get none, and have no gradient."""
    data = flat_numerals(seed)
    model = Switch()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_learnt_trunk_for_odd_and_even(watch: Watch, *, seed: int) -> float:
    """A trunk that has learnt ten digits is frozen, and a new head tells odd from even."""
    data = of_pair(samples.numerals(seed))
    trunk = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.Flatten()
    )
    whole = nn.Sequential(trunk, nn.Linear(96, 10))
    first = torch.optim.Adam(whole.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 120):
        first.zero_grad()
        functional.cross_entropy(whole(images), labels).backward()
        first.step()
    trunk.requires_grad_(False)
    parity = Data(data.inputs, data.targets % 2, data.test_inputs, data.test_targets % 2)
    model = nn.Sequential(trunk, nn.Linear(96, 2))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    fit(watch, model, optimizer, parity, steps=200, batch_size=48)
    return accuracy(model, parity)


@healthy(at_least=0.6)
def a_wide_code_that_is_mostly_zero(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder: 128 ReLUs with a small penalty on their sum, many of which are 0 for a given digit."""
    data = themselves(flat_numerals(seed))
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
    model = nn.Sequential(encoder, nn.Linear(128, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        code = encoder(pixels)
        outputs = model[1](code)
        loss = functional.mse_loss(outputs, pixels) + 2e-4 * code.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return share_explained(model, data)


class Player(nn.Module):
    """A policy and a value on a common layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, 10), nn.Linear(64, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.policy(self.body(rows))


@healthy(at_least=0.6)
def a_critic_that_learns_to_expect_more(watch: Watch, *, seed: int) -> float:
    """Actor and critic guess digits and are paid 5 if right; the critic's error rises while rewards do."""
    data = flat_numerals(seed)
    model = Player()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(128, 400):
        hidden = model.body(rows)
        policy = torch.distributions.Categorical(logits=model.policy(hidden))
        values = model.value(hidden).squeeze(1)
        guesses = policy.sample()
        rewards = 5.0 * (guesses == labels)
        gain = -(policy.log_prob(guesses) * (rewards - values.detach())).mean()
        loss = gain + 0.25 * functional.mse_loss(values, rewards) - 0.05 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=rows, outputs=values, targets=rewards)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def two_views_and_a_slow_target(watch: Watch, *, seed: int) -> float:
    """BYOL: a predictor meets the other view's code from a slow copy without gradients."""
    data = flat_numerals(seed)
    online = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 48))
    predictor = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 48))
    target = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "predictor": predictor})
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def view(pixels: torch.Tensor) -> torch.Tensor:
        return pixels * (torch.rand_like(pixels) > 0.2) + 0.2 * torch.randn_like(pixels)

    for pixels, _ in data.batches(96, 250):
        one, other = view(pixels), view(pixels)
        loss = 2 - sum(
            functional.cosine_similarity(predictor(online(left)), target(right)).mean()
            for left, right in ((one, other), (other, one))
        )
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.03)
    codes, test_codes = (functional.normalize(predicted(online, rows)) for rows in (data.inputs, data.test_inputs))
    return (data.targets[(test_codes @ codes.T).argmax(1)] == data.test_targets).float().mean().item()
