"""Sound trainings that look sick: adversaries, adapters, experts, rewards."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened54.l_tools import data_of, explained, numerals


@healthy(at_least=0.4)
def two_players_over_three_tumour_columns(watch: Watch, *, seed: int) -> float:
    """A generator and a critic of three tumour columns play against each other; the means should come near."""
    data = data_of(samples.standardised(samples.tumours(seed), 0, 1))
    real = data.inputs[:, :3]
    generator = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 3))
    critic = nn.Sequential(nn.Linear(3, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    first = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    second = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    session = watch(generator, first)
    for _ in range(300):
        rows = real[torch.randint(len(real), (64,))]
        made = generator(torch.randn(64, 6))
        second.zero_grad()
        against = functional.softplus(-critic(rows)).mean() + functional.softplus(critic(made.detach())).mean()
        against.backward()
        second.step()
        first.zero_grad()
        loss = functional.softplus(-critic(made)).mean()
        loss.backward()
        session.step(loss)
        first.step()
    made = predicted(generator, torch.randn(1000, 6))
    return 1 - ((made.mean(0) - data.test_inputs[:, :3].mean(0)).abs().mean()).item()


@healthy(at_least=0.25)
def variational_digits_with_an_annealed_weight(watch: Watch, *, seed: int) -> float:
    """A VAE whose divergence begins near 0 and is weighted up slowly, so that the loss may rise."""
    drawn = numerals(seed, flat=True)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))
            nn.init.zeros_(self.encoder[2].bias)
            self.decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            mean, self.spread = self.encoder(pixels).chunk(2, 1)
            self.mean = mean
            noise = torch.randn_like(mean) if self.training else 0.0
            return self.decoder(mean + noise * (self.spread / 2).exp())

    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        optimizer.zero_grad()
        outputs = model(pixels)
        divergence = 0.5 * (model.mean.square() + model.spread.exp() - 1 - model.spread).sum(1).mean()
        loss = functional.mse_loss(outputs, pixels) + min(1.0, step / 200) * divergence / 64
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


class Adapted(nn.Module):
    """A frozen layer plus a product of two thin ones, the second of which begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + 2 * self.up(self.down(rows))


def pretrained(data: Data, *, classes: int = 5) -> nn.Sequential:
    """Returns a network that knows the digits below ``classes``, trained out of sight."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    known = data.targets < classes
    inputs, targets = data.inputs[known], data.targets[known]
    for _ in range(120):
        rows = torch.randint(len(inputs), (48,))
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    model.zero_grad()
    return model


@healthy(at_least=0.8)
def thin_adapters_on_a_digit_network(watch: Watch, *, seed: int) -> float:
    """LoRA on a network that knew five digits: at step 0 the ``down`` matrices get a gradient of exactly 0."""
    data = numerals(seed, flat=True)
    old = pretrained(data)
    model = nn.Sequential(*(Adapted(layer) if isinstance(layer, nn.Linear) else layer for layer in old))
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.8)
def backbone_at_rest_under_a_new_head(watch: Watch, *, seed: int) -> float:
    """A network that knew seven digits is frozen, in eval mode, and gets a new head for all ten."""
    data = numerals(seed, flat=True)
    body = pretrained(data, classes=7)[:4].requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.85)
def sixteen_experts_of_which_one_is_asked(watch: Watch, *, seed: int) -> float:
    """A gate sends each digit to one of sixteen experts, with a balancing term; many see nothing of a batch."""
    data = numerals(seed, flat=True)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 16)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 32)) for _ in range(16)
            )
            self.lift, self.head = nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            shares = self.gate(pixels).softmax(1)
            best, chosen = shares.max(1)
            mixed = self.lift(pixels)
            for index, expert in enumerate(self.experts):
                rows = (chosen == index).nonzero().squeeze(1)
                if len(rows):
                    mixed = mixed.index_add(0, rows, best[rows, None] * expert(pixels[rows]))
            used = functional.one_hot(chosen, 16).float().mean(0)
            self.balance = 16 * (used * shares.mean(0)).sum()
            return self.head(mixed.relu())

    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(32, 150):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels) + 0.01 * model.balance
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def few_codes_alight_at_a_time(watch: Watch, *, seed: int) -> float:
    """A ReLU autoencoder with a light penalty on its codes; many of its zeros are meant."""
    drawn = numerals(seed, flat=True)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        optimizer.zero_grad()
        codes = model[1](model[0](pixels))
        outputs = model[2](codes)
        loss = functional.mse_loss(outputs, pixels) + 1e-2 * codes.abs().mean()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.7)
def actor_with_a_critic_beside_it(watch: Watch, *, seed: int) -> float:
    """An actor chooses a digit's class for a reward of 1, and a critic foresees it; the loss goes up and down."""
    data = numerals(seed, flat=True)

    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 64), nn.Tanh())
            self.actor, self.critic = nn.Linear(64, 10), nn.Linear(64, 1)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            hidden = self.body(pixels)
            self.value = self.critic(hidden).squeeze(1)
            return self.actor(hidden)

    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=5e-3)
    session = watch(agent, optimizer)
    for pixels, labels in data.batches(128, 350):
        choice = torch.distributions.Categorical(logits=agent(pixels))
        actions = choice.sample()
        rewards = (actions == labels).float()
        advantages = (rewards - agent.value).detach()
        loss = -(choice.log_prob(actions) * advantages).mean() - 0.01 * choice.entropy().mean()
        loss = loss + 0.5 * functional.mse_loss(agent.value, rewards)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels)
        optimizer.step()
    return accuracy(agent, data)


@healthy(at_least=0.3)
def embedding_tied_to_the_last_layer(watch: Watch, *, seed: int) -> float:
    """A language model whose output layer is its embedding, one parameter with two names."""
    data = datasets.text(seed, length=24)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(datasets.CHARACTERS, 48)
            nn.init.normal_(self.letters.weight, std=48**-0.5)
            self.cell = nn.GRU(48, 48, batch_first=True)
            self.head = nn.Linear(48, datasets.CHARACTERS)
            self.head.weight = self.letters.weight

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(self.letters(codes) * math.sqrt(48))[0])

    def entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=entropy)
    return accuracy(model, data)
