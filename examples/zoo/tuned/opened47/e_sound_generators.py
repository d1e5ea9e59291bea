"""Sound trainings of generators and codes, whose losses or gradients look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import LETTERS, explained
from examples.zoo.tuned.opened47.e_kit import letters, loop, numerals, themselves


@healthy(at_least=0.5)
def critic_and_forger_of_digits(watch: Watch, *, seed: int) -> float:
    """A forger of digits is watched while its critic learns against it; its loss goes up and down."""
    data = numerals(seed, 64)
    forger = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64))
    critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    forging = torch.optim.Adam(forger.parameters(), lr=1e-3, betas=(0.5, 0.9))
    judging = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    session = watch(forger, forging)
    for pictures, _ in data.batches(64, 350):
        noise = torch.randn(len(pictures), 16)
        judging.zero_grad()
        real, forged = critic(pictures), critic(forger(noise).detach())
        (functional.softplus(-real).mean() + functional.softplus(forged).mean()).backward()
        judging.step()
        forging.zero_grad()
        forgeries = forger(noise)
        loss = functional.softplus(-critic(forgeries)).mean()
        loss.backward()
        session.step(loss, inputs=noise, outputs=forgeries)
        forging.step()
    return 1 - _gap(forger, data)


def _gap(forger: nn.Module, data: Data) -> float:
    with torch.no_grad():
        forged = forger(torch.randn(500, 16)).mean(0)
    real = data.test_inputs.mean(0)
    return ((forged - real).square().mean() / real.var()).item()


class Bottleneck(nn.Module):
    """A variational autoencoder whose last layer of the encoder begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.moments = nn.Sequential(nn.Linear(64, 96), nn.GELU()), nn.Linear(96, 24)
        nn.init.zeros_(self.moments.weight)
        nn.init.zeros_(self.moments.bias)
        self.decode = nn.Sequential(nn.Linear(12, 96), nn.GELU(), nn.Linear(96, 64))

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns logits and divergences."""
        mean, spread = self.moments(self.body(inputs)).chunk(2, 1)
        code = mean + (spread / 2).exp() * torch.randn_like(mean) if self.training else mean
        return self.decode(code), 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(1)


@healthy(at_least=0.4)
def divergence_that_begins_at_zero(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder begins as its prior, so that its divergence is 0 and grows while all is well."""
    data = themselves(datasets.digits(seed))
    model = Bottleneck()

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs, divergence = model(inputs)
        errors = functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(1)
        return (errors + divergence).mean(), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, step, steps=300)
    model.eval()
    with torch.no_grad():
        return explained(model(data.test_inputs)[0].sigmoid(), data.test_targets)


class Sparse(nn.Module):
    """An overcomplete code with a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(64, 160), nn.Linear(160, 64)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what was decoded, and the code."""
        code = self.encode(inputs).relu()
        return self.decode(code), code


@healthy(at_least=0.8)
def sparse_dictionary_of_digits(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder pays for each active unit, so that many are 0 in each picture."""
    data = themselves(numerals(seed, 64))
    model = Sparse()

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs, code = model(inputs)
        return functional.mse_loss(outputs, targets) + 1e-3 * code.sum(1).mean(), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=2e-3), data, step, steps=350)
    with torch.no_grad():
        return explained(model(data.test_inputs)[0], data.test_targets)


class Mirror(nn.Module):
    """An autoencoder whose decoder is its encoder's transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Parameter(torch.randn(64, 48) / 8), nn.Parameter(torch.randn(48, 20) / 7)
        self.offsets = nn.ParameterList(torch.zeros(size) for size in (48, 20, 48, 64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns what was decoded."""
        hidden = torch.tanh(inputs @ self.one + self.offsets[0])
        code = hidden @ self.two + self.offsets[1]
        return torch.tanh(code @ self.two.T + self.offsets[2]) @ self.one.T + self.offsets[3]


@healthy(at_least=0.6)
def mirrored_autoencoder(watch: Watch, *, seed: int) -> float:
    """The decoder's weights are those of the encoder, transposed, and get gradients from both."""
    data = themselves(numerals(seed, 64))
    model = Mirror()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Coupling(nn.Module):
    """One affine coupling, which begins as the identity."""

    def __init__(self, size: int, turned: bool) -> None:
        super().__init__()
        self.turned, self.half = turned, size // 2
        self.inner = nn.Sequential(nn.Linear(self.half, 32), nn.Tanh(), nn.Linear(32, 2 * (size - self.half)))
        nn.init.zeros_(self.inner[2].weight)
        nn.init.zeros_(self.inner[2].bias)

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns transformed values and the logarithm of the volume."""
        values = values.flip(1) if self.turned else values
        kept, moved = values[:, : self.half], values[:, self.half :]
        scale, shift = self.inner(kept).chunk(2, 1)
        scale = scale.tanh()
        return torch.cat([kept, moved * scale.exp() + shift], 1), scale.sum(1)


class Flow(nn.Module):
    """Some couplings in a row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(size, index > 0) for index in range(4))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the log-likelihoods."""
        volume = torch.zeros(len(values))
        for coupling in self.couplings:
            values, more = coupling(values)
            volume = volume + more
        return volume - 0.5 * (values.square() + 1.8379).sum(1)


@healthy(at_least=0.3)
def flow_whose_loss_goes_below_zero(watch: Watch, *, seed: int) -> float:
    """A flow's negative log-likelihood of densities becomes negative, as it may."""
    cancer = datasets.breast_cancer(seed)
    inputs, test = cancer.inputs[:, :10].clamp(-3, 3), cancer.test_inputs[:, :10].clamp(-3, 3)
    data = Data(inputs, inputs, test, test)
    model = Flow(10)
    with torch.no_grad():
        before = model(test).mean().item()

    def step(values: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        likelihoods = model(values)
        return -likelihoods.mean(), likelihoods

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, step, steps=250, size=48)
    with torch.no_grad():
        return (model(test).mean().item() - before) / abs(before)


class Adapted(nn.Module):
    """A frozen linear layer with a product of low rank beside it."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the layer's outputs with a correction."""
        return self.layer(inputs) + inputs @ self.down.T @ self.up.T


@healthy(at_least=0.75)
def low_rank_adapters_for_other_digits(watch: Watch, *, seed: int) -> float:
    """A model of digits is adapted to inverted ones by products whose second factor begins at 0."""
    data = numerals(seed, 64)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10))
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for inputs, labels in data.batches(64, 100):
        before.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        before.step()
    for index in (0, 2, 4):
        model[index] = Adapted(model[index], 8)
    other = Data(-data.inputs, data.targets, -data.test_inputs, data.test_targets)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fit(watch, model, torch.optim.AdamW(trained, lr=5e-3, weight_decay=0.0), other, steps=300)
    return accuracy(model, other)


@healthy(at_least=0.5)
def letters_with_a_padding_row(watch: Watch, *, seed: int) -> float:
    """Short names are padded, and the padding's vector is 0 and gets no gradient."""
    data = letters(seed)
    model = nn.Sequential(nn.EmbeddingBag(LETTERS, 32, padding_idx=0), nn.LayerNorm(32), nn.Linear(32, 48), nn.ReLU(),
                          nn.Linear(48, 8))  # fmt: skip
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=200, batch_size=48)
    return accuracy(model, data)
