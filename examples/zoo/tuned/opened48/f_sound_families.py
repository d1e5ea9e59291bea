"""Sound trainings of families whose curves look odd."""

import copy

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened48.f_kit import centred, mlp, tables


@healthy(at_least=0.3)
def adversaries_that_draw_digits(watch: Watch, *, seed: int) -> float:
    """A generator and a judge train in turns, so that neither loss falls; the drawings' mean is near that of digits."""
    data = datasets.digits(seed)
    generator, judge = mlp(16, 64, 64), mlp(64, 64, 1, activation=nn.SiLU)
    makes = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.99))
    making, judging = watch(generator, makes), watch(judge, judges)
    for real, _ in data.batches(64, 400):
        noise = torch.randn(len(real), 16)
        drawn = generator(noise).sigmoid()
        judges.zero_grad()
        loss = functional.softplus(-judge(real)).mean() + functional.softplus(judge(drawn.detach())).mean()
        loss.backward()
        judging.step(loss, inputs=real)
        judges.step()
        makes.zero_grad()
        loss = functional.softplus(-judge(drawn)).mean()
        loss.backward()
        making.step(loss, inputs=noise, outputs=drawn)
        makes.step()
    mean = predicted(generator, torch.randn(500, 16)).sigmoid().mean(0)
    wanted = data.test_inputs.mean(0)
    return (1 - (mean - wanted).square().mean() / wanted.var()).item()


class Variational(nn.Module):
    """A variational autoencoder of digits with a code of eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = mlp(64, 96, 16), mlp(8, 96, 64)
        nn.init.zeros_(self.encode[-1].weight)
        nn.init.zeros_(self.encode[-1].bias)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns pixels, and the divergence of each sample's code."""
        mean, log_variance = self.encode(pixels).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decode(code), 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


@healthy(at_least=0.4)
def prior_matched_at_first_and_then_left(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder's encoder begins at the prior, so its divergence is 0 at first and rises."""
    data = datasets.digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        optimizer.zero_grad()
        outputs, divergence = model(pixels)
        loss = ((outputs - pixels).square().sum(1) / 0.1 + divergence).mean() / 64
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(predicted(First(model), data.test_inputs), data.test_inputs)


class First(nn.Module):
    """The first of a model's outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns it."""
        return self.model(inputs)[0]


class Adapted(nn.Module):
    """A frozen layer with a product of two narrow matrices added to it."""

    def __init__(self, layer: nn.Linear, rank: int = 6) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the layer's outputs."""
        return self.layer(inputs) + inputs @ self.down.T @ self.up.T


def _trained(model: nn.Module, data: Data, steps: int) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for inputs, targets in data.batches(64, steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return model


@healthy(at_least=0.8)
def narrow_updates_for_mirrored_digits(watch: Watch, *, seed: int) -> float:
    """Low-rank updates fit a trained network to mirrored digits, and half of them get no gradient at the first step."""
    data = centred(datasets.digits(seed))
    base = _trained(mlp(64, 64, 64, 10), data, 200)
    mirrored = Data(
        data.inputs.view(-1, 8, 8).flip(2).flatten(1), data.targets,
        data.test_inputs.view(-1, 8, 8).flip(2).flatten(1), data.test_targets,
    )  # fmt: skip
    model = nn.Sequential(*(Adapted(one) if isinstance(one, nn.Linear) else one for one in base))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    fit(watch, model, optimizer, mirrored, steps=200)
    return accuracy(model, mirrored)


class Routed(nn.Module):
    """Sends each digit to one of sixteen experts, scaled by the gate's share."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.gate = mlp(64, 48), nn.Linear(48, 16)
        self.experts = nn.ModuleList(mlp(48, 32, 48) for _ in range(16))
        self.head = nn.Linear(48, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        hidden = self.stem(pixels)
        share, chosen = self.gate(hidden).softmax(1).max(1)
        added = torch.zeros_like(hidden)
        for index, expert in enumerate(self.experts):
            here = (chosen == index).nonzero()[:, 0]
            if len(here):
                added = added.index_add(0, here, expert(hidden[here]) * share[here, None])
        return self.head(hidden + added)


@healthy(at_least=0.88)
def sixteen_experts_of_which_few_are_asked(watch: Watch, *, seed: int) -> float:
    """Each digit goes to one expert of sixteen, and some are not asked in a batch, or never."""
    data = centred(datasets.digits(seed))
    model = Routed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@healthy(at_least=0.85)
def head_on_a_pretrained_encoder(watch: Watch, *, seed: int) -> float:
    """An encoder that an autoencoder has pretrained stays frozen, and a head is trained on it."""
    data = centred(datasets.digits(seed))
    encoder, decoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)), mlp(32, 64, 64)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
    for pixels, _ in data.batches(64, 200):
        optimizer.zero_grad()
        functional.mse_loss(decoder(encoder(pixels)), pixels).backward()
        optimizer.step()
    head = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 10))
    model = nn.Sequential(encoder.requires_grad_(False), head)
    fit(watch, model, torch.optim.Adam(head.parameters(), lr=4e-3), data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.7)
def codes_that_are_mostly_zeros(watch: Watch, *, seed: int) -> float:
    """An autoencoder with twice as many codes as pixels has ReLUs and a small penalty, so that many codes are 0."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        optimizer.zero_grad()
        codes = encoder(pixels)
        outputs = decoder(codes)
        loss = functional.mse_loss(outputs, pixels) + 2e-3 * codes.abs().mean()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.7)
def actor_and_critic_on_one_body(watch: Watch, *, seed: int) -> float:
    """An actor and a critic share a body, and their loss may rise while the rewards grow."""
    data = centred(datasets.digits(seed))
    body, actor, critic = nn.Sequential(nn.Linear(64, 96), nn.Tanh()), nn.Linear(96, 10), nn.Linear(96, 1)
    model = nn.ModuleDict({"body": body, "actor": actor, "critic": critic})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for states, numbers in data.batches(128, 350):
        optimizer.zero_grad()
        hidden = body(states)
        policy, value = Categorical(logits=actor(hidden)), critic(hidden)[:, 0]
        actions = policy.sample()
        rewards = (actions == numbers).float()
        gains = -((rewards - value.detach()) * policy.log_prob(actions)).mean()
        loss = gains + 0.5 * functional.mse_loss(value, rewards) - 0.003 * policy.entropy().mean()
        loss.backward()
        session.step(loss, inputs=states)
        optimizer.step()
    return accuracy(nn.Sequential(body, actor), data)


class Mirror(nn.Module):
    """An autoencoder whose decoder is its encoder transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(24, 64) / 8)
        self.before, self.after = nn.Parameter(torch.zeros(24)), nn.Parameter(torch.zeros(64))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        return torch.tanh(pixels @ self.weight.T + self.before) @ self.weight + self.after


@healthy(at_least=0.6)
def decoder_that_is_the_encoder_transposed(watch: Watch, *, seed: int) -> float:
    """One matrix encodes and decodes, so that it gets two gradients."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = Mirror()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.75)
def densities_whose_loss_falls_below_zero(watch: Watch, *, seed: int) -> float:
    """A network says means and deviations, and the negative logarithm of its density goes below 0."""
    data = tables(samples.tumours(seed))
    model = mlp(10, 48, 20, activation=nn.Tanh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(48, 250):
        optimizer.zero_grad()
        mean, spread = model(inputs).chunk(2, 1)
        loss = functional.gaussian_nll_loss(mean, targets, functional.softplus(spread) + 0.01)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=mean, targets=targets)
        optimizer.step()
    return explained(predicted(model, data.test_inputs).chunk(2, 1)[0], data.test_targets)


@healthy(at_least=0.85)
def student_of_its_own_average(watch: Watch, *, seed: int) -> float:
    """A mean teacher follows the student without gradients, and the weight of agreeing with it rises from 0."""
    data = centred(datasets.digits(seed))
    student = mlp(64, 64, 48, 10)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    session = watch(student, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(48, 250)):
        optimizer.zero_grad()
        outputs = student(inputs + 0.2 * torch.randn_like(inputs))
        agreed = teacher(inputs + 0.2 * torch.randn_like(inputs)).softmax(1)
        consistency = functional.mse_loss(outputs.softmax(1), agreed)
        loss = functional.cross_entropy(outputs, targets) + min(1.0, step / 150) * 5 * consistency
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
            slow.lerp_(fast.detach(), 0.05)
    return accuracy(teacher, data)
