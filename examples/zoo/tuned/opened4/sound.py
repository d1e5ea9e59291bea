"""Healthy trainings that look odd: losses that swing or stand still, gradients that are missing."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened4.material import (
    convnet,
    explained,
    mlp,
    tiles,
)  # fmt: skip


@healthy(at_least=0.6)
def two_players_over_digits(watch: Watch, *, seed):
    """A generator and a discriminator: both losses swing, and the mean picture of the fakes is that of the digits."""
    data = digits(seed)
    generator = nn.Sequential(*mlp(8, 64, 64), nn.Sigmoid())
    critic = mlp(64, 64, 1, activation=nn.LeakyReLU)
    makes = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.99))
    first, second = watch(critic, judges), watch(generator, makes)
    logits_loss = functional.binary_cross_entropy_with_logits
    for rows, _ in data.batches(64, 500):
        fakes = generator(torch.randn(len(rows), 8))
        judges.zero_grad()
        real, fake = critic(rows), critic(fakes.detach())
        loss = logits_loss(real, torch.ones_like(real)) + logits_loss(fake, torch.zeros_like(fake))
        loss.backward()
        first.step(loss)
        judges.step()
        makes.zero_grad()
        verdict = critic(fakes)
        loss = logits_loss(verdict, torch.ones_like(verdict))
        loss.backward()
        second.step(loss)
        makes.step()
    drawn = predicted(generator, torch.randn(500, 8)).mean(0)
    return explained(drawn[:, None], data.inputs.mean(0)[:, None])


@healthy(at_least=0.4)
def variational_with_a_divergence_that_fades_in(watch: Watch, *, seed):
    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(64, 48, 16), mlp(8, 48, 64)

        def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encoder(rows).chunk(2, -1)
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
            return self.decoder(code), 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1).mean()

    data, model = digits(seed), Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (rows, _) in enumerate(data.batches(64, 280)):
        outputs, divergence = model(rows)
        loss = (outputs - rows).square().sum(-1).mean() + 0.05 * min(1.0, step / 140) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[0], data.test_inputs)


class LowRank(nn.Module):
    """A frozen linear layer with a trained difference of low rank, which starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) * layer.in_features**-0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + rows @ self.down.T @ self.up.T


@healthy(at_least=0.8)
def low_rank_adapters_on_turned_digits(watch: Watch, *, seed):
    """A network that reads digits is adapted to turned ones by low-rank differences."""
    data = digits(seed)
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for rows, labels in data.batches(64, 200):
        optimizer.zero_grad()
        functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()

    def turn(rows):
        return rows.view(-1, 8, 8).rot90(1, (1, 2)).flatten(1)

    turned = Data(turn(data.inputs), data.targets, turn(data.test_inputs), data.test_targets)
    for place in (0, 2, 4):
        model[place] = LowRank(model[place], 8)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, turned, steps=240, batch_size=48)
    return accuracy(model, turned)


@healthy(at_least=0.85)
def experts_of_which_some_never_work(watch: Watch, *, seed):
    """Top-1 routing to six experts; one never gets a sample, and so has no gradient."""

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(64, 6)
            self.experts = nn.ModuleList(mlp(64, 24, 10) for _ in range(6))
            with torch.no_grad():
                self.router.bias[5] = -30.0

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            weights, chosen = self.router(rows).softmax(-1).max(-1)
            outputs = rows.new_zeros(len(rows), 10)
            for number, expert in enumerate(self.experts):
                mine = (chosen == number).nonzero()[:, 0]
                if len(mine):
                    outputs = outputs.index_add(0, mine, expert(rows[mine]) * weights[mine, None])
            return outputs

    data, model = digits(seed), Routed()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def new_head_on_a_frozen_pretrained_backbone(watch: Watch, *, seed):
    data = digits(seed, images=True)
    model = convnet(16)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    low = data.targets < 5
    for rows in torch.randint(int(low.sum()), (150, 48)):
        optimizer.zero_grad()
        functional.cross_entropy(model(data.inputs[low][rows]), data.targets[low][rows]).backward()
        optimizer.step()
    model.requires_grad_(False)
    model[-1] = nn.Linear(128, 10)
    optimizer = torch.optim.Adam(model[-1].parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.6)
def sparse_code_that_is_mostly_zero(watch: Watch, *, seed):
    """An overcomplete autoencoder with ReLU and an L1 penalty: most of the code is zero, as it should be."""

    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(64, 160), nn.Linear(160, 64)

        def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            code = self.encoder(rows).relu()
            return self.decoder(code), code

    data, model = digits(seed), Sparse()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 250):
        outputs, code = model(rows)
        loss = functional.mse_loss(outputs, rows) + 3e-3 * code.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[0], data.test_inputs)


@healthy(at_least=0.75)
def policy_gradient_with_a_baseline(watch: Watch, *, seed):
    """A surrogate loss around 0 that says nothing about the reward, which rises."""
    data = digits(seed)
    model = mlp(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    baseline = 0.1
    for rows, labels in data.batches(96, 300):
        policy = torch.distributions.Categorical(logits=model(rows))
        actions = policy.sample()
        rewards = (actions == labels).float()
        loss = -(policy.log_prob(actions) * (rewards - baseline)).mean() - 0.01 * policy.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def one_matrix_for_encoder_and_decoder(watch: Watch, *, seed):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(24, 64) * 0.12)
            self.enter, self.leave = nn.Parameter(torch.zeros(24)), nn.Parameter(torch.zeros(64))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return functional.linear(functional.linear(rows, self.weight, self.enter).tanh(), self.weight.T, self.leave)

    pictures = tiles(seed) * 2 - 1
    data = Data(pictures[:1200], pictures[:1200], pictures[1200:], pictures[1200:])
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)
