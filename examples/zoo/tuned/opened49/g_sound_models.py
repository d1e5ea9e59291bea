"""Sound trainings that look sick: models whose parts rest, begin at 0, or work against each other."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened49.g_kit import counted, flat, layers, lower, pictures, spelled


@healthy(at_least=0.25)
def inpainting_with_a_critic_of_edges(watch: Watch, *, seed: int) -> float:
    """A generator fills in lower halves against a discriminator, and both losses oscillate as they should."""
    data = lower(seed)
    generator = nn.Sequential(layers(32, 96, 64, 32), nn.Sigmoid())
    critic = layers(64, 48, 1, activation=nn.SiLU)
    model = nn.ModuleDict({"generator": generator, "critic": critic})
    making = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.5, 0.999))
    session = watch(model, making)
    for upper, below in data.batches(64, 250):
        made = generator(upper)
        real = critic(torch.cat([upper, below], 1))
        fake = critic(torch.cat([upper, made.detach()], 1))
        judging.zero_grad()
        judged = functional.softplus(-real).mean() + functional.softplus(fake).mean()
        judged.backward()
        judging.step()
        making.zero_grad()
        fooled = functional.softplus(-critic(torch.cat([upper, made], 1))).mean()
        loss = 10 * functional.mse_loss(made, below) + 0.05 * fooled
        loss.backward()
        session.step(loss, inputs=upper, outputs=made, targets=below)
        making.step()
    return explained(predicted(generator, data.test_inputs), data.test_targets)


class Encoded(nn.Module):
    """A variational autoencoder, whose encoder begins at the prior."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.code = nn.Sequential(nn.Linear(64, 64), nn.SiLU()), nn.Linear(64, 24)
        nn.init.normal_(self.code.weight, std=1e-2)
        nn.init.zeros_(self.code.bias)
        self.decode = layers(12, 64, 64, activation=nn.SiLU)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns logits of pixels, and each sample's divergence from the prior."""
        means, logs = self.code(self.body(pixels)).chunk(2, 1)
        noise = torch.randn_like(means) if self.training else torch.zeros_like(means)
        divergence = -0.5 * (1 + logs - means.square() - logs.exp()).sum(1)
        return self.decode(means + noise * (logs / 2).exp()), divergence


@healthy(at_least=0.4)
def code_that_begins_at_its_prior(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence begins at 0 and rises while its weight is annealed."""
    data = datasets.digits(seed)
    model = Encoded()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        logits, divergence = model(pixels)
        rebuilt = functional.binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(1)
        loss = (rebuilt + min(0.3, step / 500) * divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=pixels)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[0].sigmoid(), data.test_inputs)


class LowRank(nn.Module):
    """A frozen linear layer, and an update of low rank that begins at 0."""

    def __init__(self, base: nn.Linear, rank: int = 6) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the sum of both."""
        return self.base(values) + values @ self.down.T @ self.up.T


@healthy(at_least=0.8)
def low_ranks_for_digits_upside_down(watch: Watch, *, seed: int) -> float:
    """A network for digits is adapted to digits upside down by updates of low rank, whose first gradients are 0."""
    data = flat(seed)
    base = layers(64, 64, 64, 10)
    warming = torch.optim.Adam(base.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 150):
        warming.zero_grad()
        functional.cross_entropy(base(pixels), labels).backward()
        warming.step()
    turned = Data(data.inputs.flip(1), data.targets, data.test_inputs.flip(1), data.test_targets)
    model = nn.Sequential(*(LowRank(one) if isinstance(one, nn.Linear) else one for one in base))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=1e-2)
    fit(watch, model, optimizer, turned, steps=250, batch_size=64)
    return accuracy(model, turned)


class Switch(nn.Module):
    """Sends each sample to the expert that a router likes best."""

    def __init__(self, experts: int = 6) -> None:
        super().__init__()
        self.router = nn.Linear(64, experts)
        self.experts = nn.ModuleList(layers(64, 24, 10) for _ in range(experts))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        chances, chosen = self.router(pixels).softmax(1).max(1)
        outputs = pixels.new_zeros(len(pixels), 10)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero().squeeze(1)
            if len(rows):
                outputs = outputs.index_add(0, rows, expert(pixels[rows]) * chances[rows, None])
        return outputs


@healthy(at_least=0.85)
def switch_that_leaves_experts_idle(watch: Watch, *, seed: int) -> float:
    """A router sends each digit to one of six experts; in some batches an expert gets none and has no gradient."""
    data = flat(seed)
    model = Switch()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.8)
def head_on_a_trunk_that_knows_parity(watch: Watch, *, seed: int) -> float:
    """A trunk that was trained to tell digits' neighbours stays frozen, in eval mode, below a new head."""
    data = pictures(seed)
    trunk = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(384, 64), nn.ReLU(),
    )  # fmt: skip
    first = nn.Sequential(trunk, nn.Linear(64, 5))
    warming = torch.optim.Adam(first.parameters(), lr=2e-3)
    for images, labels in data.batches(64, 120):
        warming.zero_grad()
        functional.cross_entropy(first(images), labels // 2).backward()
        warming.step()
    trunk.requires_grad_(False).eval()
    head = nn.Linear(64, 10)
    model = nn.Sequential(trunk, head)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 200):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def few_features_at_once(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder of 128 ReLUs has a penalty on them, so that most are 0 for most digits."""
    data = datasets.digits(seed)
    encode, decode = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encode, decode)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        features = encode(pixels)
        outputs = decode(features)
        loss = (outputs - pixels).square().sum(1).mean() + 0.02 * features.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_inputs)


class TiedCoder(nn.Module):
    """An autoencoder that decodes by its encoder's matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.bias = nn.Linear(64, 24), nn.Parameter(torch.zeros(64))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        return functional.linear(torch.tanh(self.encode(pixels)), self.encode.weight.T, self.bias)


@healthy(at_least=0.6)
def one_matrix_there_and_back(watch: Watch, *, seed: int) -> float:
    """The decoder is the encoder's transposed matrix, which gets gradients from both uses."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = TiedCoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class PaddedReader(nn.Module):
    """Averages a name's letters, but not its padding, whose embedding is 0 and never gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
        self.convolve = nn.Conv1d(32, 48, 3, padding=1)
        self.head = nn.Linear(48, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits of scripts."""
        found = torch.relu(self.convolve(self.letters(codes).transpose(1, 2)))
        shown = (codes != 0).unsqueeze(1)
        return self.head((found * shown).sum(2) / shown.sum(2).clamp(min=1))


@healthy(at_least=0.5)
def a_row_for_padding_that_never_moves(watch: Watch, *, seed: int) -> float:
    """Names are padded to 24 letters, so that a row of the embedding stays 0 and rare letters get no gradients."""
    data = spelled(seed)
    model = PaddedReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


class DroppedDepth(nn.Module):
    """Residual blocks that are left out at random while the model is trained."""

    def __init__(self, depth: int = 6) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 48), nn.Linear(48, 1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(48), layers(48, 48, 48)) for _ in range(depth))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns an amount."""
        state = self.first(pixels)
        for block in self.blocks:
            if not self.training:
                state = state + 0.8 * block(state)
            elif torch.rand(()) < 0.8:
                state = state + block(state)
        return self.last(state)


@healthy(at_least=0.7)
def blocks_left_out_at_random(watch: Watch, *, seed: int) -> float:
    """Stochastic depth: in each step a fifth of the blocks is left out, and has no gradient."""
    data = counted(seed)
    model = DroppedDepth()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return r_squared(model, data)
