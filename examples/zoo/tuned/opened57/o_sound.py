"""Sound trainings that may look sick: makers, codes, adapters and experts."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened57.o_common import rows


@healthy(at_least=0.75)
def a_maker_of_three_measurements(watch: Watch, *, seed: int) -> float:
    """A GAN with the non-saturating loss makes three of a tumour's measurements; their correlations judge it."""
    real = datasets.breast_cancer(seed).inputs[:, [0, 1, 4]].clamp(-3, 3)
    maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 3))
    critic = nn.Sequential(nn.Linear(3, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    making, judging = watch(maker, makes), watch(critic, judges)
    for _ in range(400):
        true, made = real[torch.randint(len(real), (64,))], maker(torch.randn(64, 4))
        judges.zero_grad()
        loss = functional.softplus(-critic(true)).mean() + functional.softplus(critic(made.detach())).mean()
        loss.backward()
        judging.step(loss, inputs=true)
        judges.step()
        makes.zero_grad()
        loss = functional.softplus(-critic(made)).mean()
        loss.backward()
        making.step(loss, outputs=made)
        makes.step()
    found = predicted(maker, torch.randn(1000, 4)).T.corrcoef()
    return 1 - (found - real.T.corrcoef()).abs().mean().item()


@healthy(at_least=0.4)
def a_vae_whose_divergence_starts_at_nothing(watch: Watch, *, seed: int) -> float:
    """The last layer of a VAE's encoder begins near 0, so that its divergence does too."""
    data = datasets.digits(seed)

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 20))
            self.decoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64))
            nn.init.normal_(self.encoder[2].weight, std=1e-3)
            nn.init.zeros_(self.encoder[2].bias)

        def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, logarithm = self.encoder(pixels).chunk(2, 1)
            noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
            return self.decoder(mean + noise * (logarithm / 2).exp()), mean, logarithm

    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        outputs, mean, logarithm = model(pixels)
        divergence = 0.5 * (mean.square() + logarithm.exp() - 1 - logarithm).sum(1).mean()
        loss = functional.mse_loss(outputs, pixels, reduction="none").sum(1).mean() + 0.2 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[0], data.test_inputs)


class LowRank(nn.Module):
    """A frozen linear layer, and a product of two thin matrices beside it, of which the second begins at 0."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.base(values) + 2 * values @ self.down.T @ self.up.T


@healthy(at_least=0.85)
def low_rank_updates_for_turned_digits(watch: Watch, *, seed: int) -> float:
    """A network of upright digits is adapted to turned ones by LoRA; its A matrices have no gradient at first."""
    upright, turned = datasets.digits(seed), datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for inputs, targets in upright.batches(64, 150):
        before.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        before.step()
    model.zero_grad()
    for index in (0, 2, 4):
        model[index] = LowRank(model[index], 8)
    trainable = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=5e-3)
    session = watch(model, optimizer)
    for images, targets in turned.batches(64, 300):
        inputs = images.rot90(1, (2, 3)).flatten(1)
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    asked = turned.test_inputs.rot90(1, (2, 3)).flatten(1)
    return samples.accuracy(predicted(model, asked), turned.test_targets)


@healthy(at_least=0.9)
def one_expert_of_eight_for_each(watch: Watch, *, seed: int) -> float:
    """Each digit goes to one of eight experts; in a batch some of them are asked nothing. A balance term is added."""
    data = datasets.digits(seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(64, 8)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(8)
            )

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            shares = self.router(pixels).softmax(1)
            best, chosen = shares.max(1)
            outputs = pixels.new_zeros(len(pixels), 10)
            for index, expert in enumerate(self.experts):
                asked = (chosen == index).nonzero()[:, 0]
                if len(asked):
                    outputs = outputs.index_add(0, asked, best[asked, None] * expert(pixels[asked]))
            self.balance = 8 * (functional.one_hot(chosen, 8).float().mean(0) * shares.mean(0)).sum()
            return outputs

    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 350):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets) + 0.01 * model.balance
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.75)
def a_backbone_learnt_from_other_digits(watch: Watch, *, seed: int) -> float:
    """Convolutions learnt from the digits 0 to 5 stay frozen, in eval mode, while a head learns 6 to 9."""
    data = datasets.digits(seed, images=True)
    backbone = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
    )  # fmt: skip
    first = nn.Sequential(backbone, nn.Linear(256, 6))
    before = torch.optim.Adam(first.parameters(), lr=3e-3)
    known = data.targets < 6
    for _ in range(100):
        rows_ = known.nonzero()[:, 0][torch.randperm(int(known.sum()))[:64]]
        before.zero_grad()
        functional.cross_entropy(first(data.inputs[rows_]), data.targets[rows_]).backward()
        before.step()
    backbone.requires_grad_(False).eval()
    first.zero_grad()
    later, asked = ~known, data.test_targets >= 6
    new = datasets.Data(data.inputs[later], data.targets[later] - 6, data.test_inputs[asked],
                        data.test_targets[asked] - 6)  # fmt: skip
    head = nn.Linear(256, 4)
    model = nn.Sequential(backbone, head)
    fit(watch, model, torch.optim.Adam(head.parameters(), lr=3e-3), new, steps=150)
    return accuracy(model, new)


@healthy(at_least=0.6)
def features_of_digits_mostly_silent(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder of 96 ReLU units, with a penalty under which most are 0 for a digit."""
    data = datasets.digits(seed)
    inner, outer = nn.Sequential(nn.Linear(64, 96), nn.ReLU()), nn.Linear(96, 64)
    model = nn.Sequential(inner, outer)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 400):
        code = inner(pixels)
        outputs = outer(code)
        loss = functional.mse_loss(outputs, pixels) + 0.003 * code.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@healthy(at_least=0.8)
def actions_chosen_and_rewarded(watch: Watch, *, seed: int) -> float:
    """An actor and a critic learn which of three wines it is by rewards; the loss of such a policy says little."""
    data = datasets.wine(seed)

    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(13, 32), nn.Tanh())
            self.actor, self.critic = nn.Linear(32, 3), nn.Linear(32, 1)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.actor(self.body(values))

    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(250):
        drawn = torch.randint(len(data.inputs), (64,))
        inputs = data.inputs[drawn]
        hidden = model.body(inputs)
        policy, value = torch.distributions.Categorical(logits=model.actor(hidden)), model.critic(hidden).squeeze(1)
        actions = policy.sample()
        rewards = (actions == data.targets[drawn]).float()
        gain = (policy.log_prob(actions) * (rewards - value.detach())).mean()
        loss = 0.5 * functional.mse_loss(value, rewards) - gain - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def encoder_and_decoder_share_their_weight(watch: Watch, *, seed: int) -> float:
    """An autoencoder decodes with the transposed weight of its encoder."""
    data = rows(seed, length=24)
    data = datasets.Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(24, 10)
            self.shift = nn.Parameter(torch.zeros(24))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.inner(values)) @ self.inner.weight + self.shift

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=60)
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)
