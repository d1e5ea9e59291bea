"""Sound trainings of generators, codes, adapters, experts and policies, which look odd from afar."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened45.c_common import of_columns


@healthy(at_least=0.4)
def hinge_rivals_on_flowers(watch: Watch, *, seed: int) -> float:
    """A generator of flowers' measurements and its rival, by hinge losses that swing."""
    real = datasets.iris(seed).inputs
    generator = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
    rival = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.9))
    of_rival = torch.optim.Adam(rival.parameters(), lr=4e-3, betas=(0.0, 0.9))
    makes, judges = watch(generator, of_generator), watch(rival, of_rival)
    for _ in range(350):
        true, noise = real[torch.randint(len(real), (48,))], torch.randn(48, 6)
        made = generator(noise)
        loss = (1 - rival(true)).relu().mean() + (1 + rival(made.detach())).relu().mean()
        of_rival.zero_grad()
        loss.backward()
        judges.step(loss)
        of_rival.step()
        loss = -rival(made).mean()
        of_generator.zero_grad()
        loss.backward()
        makes.step(loss, inputs=noise, outputs=made)
        of_generator.step()
    with torch.no_grad():
        made = generator(torch.randn(1000, 6))
    return 1 - (made.mean(0) - real.mean(0)).abs().mean().item()


class Variational(nn.Module):
    """Encodes pixels into a distribution of codes, which begins at the prior, and decodes a sample of it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.moments = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 16)
        nn.init.zeros_(self.moments.weight)
        nn.init.zeros_(self.moments.bias)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.moments(self.encoder(pixels)).chunk(2, 1)
        code = mean + (0.5 * log_variance).exp() * torch.randn_like(mean) if self.training else mean
        return self.decoder(code), 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()


@healthy(at_least=0.3)
def codes_that_begin_at_the_prior(watch: Watch, *, seed: int) -> float:
    """The divergence of a variational autoencoder is 0 at first, and its weight rises over 100 steps."""
    data = datasets.digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300)):
        outputs, divergence = model(pixels)
        error = (outputs - pixels).square().sum(1).mean() / 0.1
        loss = error + min(1.0, step / 100) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    outputs, _ = predicted(model, data.test_inputs)
    return samples.explained(outputs, data.test_inputs)


class Adapted(nn.Module):
    """A frozen layer with an update of low rank, which begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) + 2 * inputs @ self.down.T @ self.up.T


@healthy(at_least=0.8)
def low_rank_updates_of_a_reader(watch: Watch, *, seed: int) -> float:
    """A net that knows digits learns them upside down by updates of low rank, with one half's gradient 0 at first."""
    drawn = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    earlier = torch.optim.Adam(net.parameters(), lr=3e-3)
    for rows, labels in drawn.batches(64, 100):
        earlier.zero_grad()
        functional.cross_entropy(net(rows), labels).backward()
        earlier.step()
    flipped = [part.view(-1, 8, 8).flip(1).flatten(1) for part in (drawn.inputs, drawn.test_inputs)]
    data = Data(flipped[0], drawn.targets, flipped[1], drawn.test_targets)
    model = nn.Sequential(Adapted(net[0], 8), nn.ReLU(), Adapted(net[2], 8), nn.ReLU(), Adapted(net[4], 8))
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


class Experts(nn.Module):
    """Sends each sample to the best of eight experts, some of which get none."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 8)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(8))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        share, chosen = self.gate(rows).softmax(1).max(1)
        outputs = rows.new_zeros(len(rows), 10)
        for index, expert in enumerate(self.experts):
            mine = (chosen == index).nonzero()[:, 0]
            if len(mine):
                outputs = outputs.index_add(0, mine, share[mine, None] * expert(rows[mine]))
        return outputs


@healthy(at_least=0.85)
def experts_that_are_seldom_asked(watch: Watch, *, seed: int) -> float:
    """A gate chooses one of eight experts for each digit, and some of them have no sample in most batches."""
    data = datasets.digits(seed)
    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@healthy(at_least=0.8)
def a_new_head_on_a_frozen_body(watch: Watch, *, seed: int) -> float:
    """A body that learned the digits up to 6 stays as it is, and a new head learns the other three."""
    drawn = datasets.digits(seed, images=True)
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(512, 48), nn.ReLU(),
    )  # fmt: skip
    early, late, judged = drawn.targets < 7, drawn.targets >= 7, drawn.test_targets >= 7
    first = nn.Sequential(body, nn.Linear(48, 7))
    earlier = torch.optim.Adam(first.parameters(), lr=3e-3)
    rows, labels = drawn.inputs[early], drawn.targets[early]
    for _ in range(80):
        batch = torch.randint(len(rows), (64,))
        earlier.zero_grad()
        functional.cross_entropy(first(rows[batch]), labels[batch]).backward()
        earlier.step()
    body.requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(48, 3))
    data = Data(drawn.inputs[late], drawn.targets[late] - 7, drawn.test_inputs[judged], drawn.test_targets[judged] - 7)
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


@healthy(at_least=0.5)
def a_sparse_dictionary_of_patches(watch: Watch, *, seed: int) -> float:
    """An overcomplete autoencoder with rectified codes and a penalty on them: many of its codes are zeros."""
    patches = datasets.patches(seed)
    patches = patches - patches.mean(1, keepdim=True)
    patches = patches / patches[:1500].std()
    data = Data(patches[:1500], patches[:1500], patches[1500:], patches[1500:])
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, targets in data.batches(64, 300):
        codes = encoder(rows)
        outputs = decoder(codes)
        loss = functional.mse_loss(outputs, targets) + 2e-3 * codes.abs().sum(1).mean() / 8
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    return of_columns(model, data)


@healthy(at_least=0.75)
def wines_guessed_for_a_reward(watch: Watch, *, seed: int) -> float:
    """A policy guesses wines and is told only whether it was right: its loss says little and may rise."""
    data = datasets.wine(seed)
    policy = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    usual = 1 / 3
    for rows, labels in data.batches(48, 300):
        choice = torch.distributions.Categorical(logits=policy(rows))
        actions = choice.sample()
        rewards = (actions == labels).float()
        loss = -((rewards - usual) * choice.log_prob(actions)).mean() - 0.01 * choice.entropy().mean()
        usual = 0.9 * usual + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(policy, data)


@healthy(at_least=0.65)
def risks_of_those_still_there(watch: Watch, *, seed: int) -> float:
    """Cox's partial likelihood compares each patient with those of the batch whose progression is slower."""
    drawn = datasets.diabetes(seed, raw_targets=True)
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)

    def likelihood(risks: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        order = times[:, 0].argsort(descending=True)
        ordered = risks[order, 0]
        return (ordered.logcumsumexp(0) - ordered).mean()

    fit(watch, model, optimizer, drawn, steps=120, batch_size=110, loss_function=likelihood)
    risks, times = predicted(model, drawn.test_inputs)[:, 0], drawn.test_targets[:, 0]
    sooner = times[:, None] < times
    return (risks[:, None] > risks)[sooner].float().mean().item()
