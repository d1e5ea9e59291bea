"""Sound trainings that look odd: generators, adapters, mixtures and scales."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened58.p_common import of, stack


def rebuilt(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out inputs' variance that an autoencoder keeps."""
    outputs = predicted(model, data.test_inputs)
    outputs = outputs[0] if isinstance(outputs, tuple) else outputs
    return 1 - ((outputs - data.test_inputs).square().mean() / data.test_inputs.var(0).mean()).item()


@healthy(at_least=0.25)
def flowers_drawn_against_a_judge(watch: Watch, *, seed: int) -> float:
    """A small GAN draws the four measures of flowers, blurred by a little noise, and both losses go up and down.

    The quality is how close the deciles of its drawings are to those of flowers held out.
    """
    data = datasets.iris(seed)
    forger = stack(4, 32, 4)
    judge = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    forging = torch.optim.Adam(forger.parameters(), lr=1e-3, betas=(0.5, 0.99))
    judging = torch.optim.Adam(judge.parameters(), lr=3e-3, betas=(0.5, 0.99))
    forged, judged = watch(forger, forging), watch(judge, judging)
    bce = functional.binary_cross_entropy_with_logits
    for flowers, _ in data.batches(56, 400):
        noise = torch.randn(len(flowers), 4)
        drawn = forger(noise)
        shown = torch.cat([flowers, drawn.detach()])
        shown = shown + 0.3 * torch.randn_like(shown)
        truth = torch.cat([torch.full((len(flowers), 1), 0.9), torch.zeros(len(flowers), 1)])
        verdicts = judge(shown)
        judging.zero_grad()
        loss = bce(verdicts, truth)
        loss.backward()
        judged.step(loss, inputs=shown, outputs=verdicts, targets=truth)
        judging.step()
        forging.zero_grad()
        loss = bce(judge(drawn + 0.3 * torch.randn_like(drawn)), torch.ones(len(flowers), 1))
        loss.backward()
        forged.step(loss, inputs=noise, outputs=drawn)
        forging.step()
    drawn = predicted(forger, torch.randn(2000, 4))
    levels = torch.linspace(0.1, 0.9, 9)
    return 1 - (drawn.quantile(levels, 0) - data.test_inputs.quantile(levels, 0)).abs().mean().item()


@healthy(at_least=0.4)
def coder_whose_divergence_warms_up(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence begins near 0 and is weighed more with each step, so the loss may rise."""
    data = datasets.digits(seed)

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = stack(64, 64, 20), stack(10, 64, 64)

        def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encoder(pixels).chunk(2, -1)
            noise = torch.randn_like(mean) if self.training else 0.0
            return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance

    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        outputs, mean, log_variance = model(pixels)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        errors = 10 * (outputs - pixels).square().sum(1)
        loss = (errors + min(1.0, step / 150) * divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return rebuilt(model, data)


@healthy(at_least=0.85)
def low_rank_adapters_on_odd_digits(watch: Watch, *, seed: int) -> float:
    """A net for digits below five learns the others by adapters, of whose halves one begins at 0."""
    data = datasets.digits(seed)

    def part(low: int) -> Data:
        first, later = ((labels >= low) & (labels < low + 5) for labels in (data.targets, data.test_targets))
        return Data(
            data.inputs[first], data.targets[first] - low, data.test_inputs[later], data.test_targets[later] - low
        )

    class Adapted(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, 4, bias=False)
            self.up = nn.Linear(4, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.base(values) + 2 * self.up(self.down(values))

    base, before, after = stack(64, 48, 5), part(0), part(5)
    first = torch.optim.Adam(base.parameters(), lr=5e-3)
    for pixels, labels in before.batches(64, 80):
        first.zero_grad()
        functional.cross_entropy(base(pixels), labels).backward()
        first.step()
    model = nn.Sequential(Adapted(base[0]), nn.ReLU(), Adapted(base[2]))
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    fit(watch, model, optimizer, after, steps=150)
    return accuracy(model, after)


@healthy(at_least=0.85)
def experts_of_whom_two_are_asked(watch: Watch, *, seed: int) -> float:
    """Each digit goes to the best two of eight experts, so some experts get none for a while."""
    data = of(samples.numerals(seed))

    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.experts = nn.Linear(64, 8), nn.ModuleList([stack(64, 16, 10) for _ in range(8)])

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            flat = images.flatten(1)
            chances, chosen = self.gate(flat).softmax(-1).topk(2)
            outputs = flat.new_zeros(len(flat), 10)
            for index, expert in enumerate(self.experts):
                rows, places = (chosen == index).nonzero(as_tuple=True)
                if len(rows):
                    outputs = outputs.index_add(0, rows, expert(flat[rows]) * chances[rows, places, None])
            return outputs

    model = Sparse()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=180)
    return accuracy(model, data)


@healthy(at_least=0.85)
def head_on_a_backbone_that_rests(watch: Watch, *, seed: int) -> float:
    """A backbone was trained to restore pixels; it stays as it is, and a head alone learns digits."""
    data = of(samples.numerals(seed))
    body, decoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 64)
    before = torch.optim.Adam([*body.parameters(), *decoder.parameters()], lr=3e-3)
    for images, _ in data.batches(64, 150):
        before.zero_grad()
        functional.mse_loss(decoder(body(images)), images.flatten(1)).backward()
        before.step()
    body.requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.6)
def few_codes_at_a_time(watch: Watch, *, seed: int) -> float:
    """An autoencoder of rectified codes pays a little for each, so that most are 0."""
    data = datasets.digits(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU()), nn.Linear(96, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        codes = encoder(pixels)
        outputs = decoder(codes)
        loss = functional.mse_loss(outputs, pixels) + 2e-4 * codes.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return rebuilt(model, data)


@healthy(at_least=0.8)
def guesses_paid_and_kept_open(watch: Watch, *, seed: int) -> float:
    """A policy guesses digits for a reward; its surrogate's value says nothing, and rises."""
    data = of(samples.numerals(seed))
    policy = nn.Sequential(nn.Flatten(), *stack(64, 64, 10, activation=nn.Tanh))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    for images, labels in data.batches(128, 350):
        logits = policy(images)
        choice = torch.distributions.Categorical(logits=logits)
        actions = choice.sample()
        rewards = (actions == labels).float()
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        loss = -(choice.log_prob(actions) * advantages).mean() - 0.02 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits)
        optimizer.step()
    return accuracy(policy, data)


@healthy(at_least=0.2)
def one_matrix_reads_and_writes(watch: Watch, *, seed: int) -> float:
    """A recurrent net of characters has one matrix for its embedding and its head."""
    data = datasets.text(seed, length=16)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.body = nn.Embedding(CHARACTERS, 48), nn.GRU(48, 48, batch_first=True)
            nn.init.normal_(self.letters.weight, std=0.1)
            self.head = nn.Linear(48, CHARACTERS)
            self.head.weight = self.letters.weight

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.letters(codes))[0])

    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.45)
def prices_up_to_thousands(watch: Watch, *, seed: int) -> float:
    """Targets are hundreds to thousands; the model standardises both ends itself, so the loss is huge."""
    data = of(samples.proline(seed))

    class Standardising(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", data.inputs.mean(0))
            self.register_buffer("std", data.inputs.std(0))
            self.register_buffer("level", data.targets.mean())
            self.register_buffer("spread", data.targets.std())
            self.body = stack(12, 16, 1, activation=nn.Tanh)

        def forward(self, wines: torch.Tensor) -> torch.Tensor:
            return self.body((wines - self.mean) / self.std) * self.spread + self.level

    model = Standardising()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)
