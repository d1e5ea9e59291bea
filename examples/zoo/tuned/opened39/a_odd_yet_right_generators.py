"""Sound trainings that look odd: makers of data, rewards, and teachers."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened39.a_mechanics_of_a_step import small_net
from examples.zoo.tuned.opened39.a_shared_loaders import glyphs


@healthy(at_least=0.6)
def a_gan_of_flowers(watch: Watch, *, seed: int) -> float:
    """A maker and a judge of irises' measurements: both losses go up and down and neither ends low."""
    real = datasets.iris(seed).inputs
    maker = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
    judge = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(32, 1))
    makes = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.99))
    making, judging = watch(maker, makes), watch(judge, judges)
    criterion = functional.binary_cross_entropy_with_logits
    for _ in range(350):
        true, made = real[torch.randint(len(real), (32,))], maker(torch.randn(32, 6))
        judges.zero_grad()
        verdicts = judge(torch.cat([true, made.detach()]))
        truth = torch.cat([torch.full((32, 1), 0.9), torch.zeros(32, 1)])
        loss = criterion(verdicts, truth)
        loss.backward()
        judging.step(loss, outputs=verdicts, targets=truth)
        judges.step()
        makes.zero_grad()
        loss = criterion(judge(made), torch.ones(32, 1))
        loss.backward()
        making.step(loss)
        makes.step()
    return 1 - (predicted(maker, torch.randn(800, 6)).T.corrcoef() - real.T.corrcoef()).abs().mean().item()


@healthy(at_least=0.5)
def a_vae_whose_divergence_is_phased_in(watch: Watch, *, seed: int) -> float:
    """A VAE of digits: the divergence's weight rises from 0, so that the sum of both losses rises as well."""
    data = glyphs(seed, flat=True)

    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 20))
            self.decode = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.Linear(64, 64))

        def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, spread = self.encode(pixels).chunk(2, 1)
            drawn = mean + torch.randn_like(mean) * (0.5 * spread).exp() if self.training else mean
            return self.decode(drawn), mean, spread

    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300)):
        outputs, mean, spread = model(pixels)
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean() / 64
        loss = functional.mse_loss(outputs, pixels) + min(0.5, step / 300) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_inputs)


@healthy(at_least=0.85)
def a_bandit_that_names_wines(watch: Watch, *, seed: int) -> float:
    """An actor is paid for a right guess and a critic says what it will be paid; the loss is no measure of either."""
    data = datasets.wine(seed)
    actor, critic = (nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, width)) for width in (3, 1))
    model = nn.ModuleDict({"actor": actor, "critic": critic})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 300):
        policy = torch.distributions.Categorical(logits=actor(rows))
        guesses = policy.sample()
        pay, due = (guesses == labels).float(), critic(rows)[:, 0]
        gain = pay - due.detach()
        loss = -(policy.log_prob(guesses) * gain).mean() + 0.5 * functional.mse_loss(due, pay)
        loss = loss - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(actor, data)


@healthy(at_least=0.85)
def a_student_of_warm_probabilities(watch: Watch, *, seed: int) -> float:
    """A student learns a teacher's probabilities at a temperature of 4, scaled by 16; the teacher is in eval mode."""
    data = glyphs(seed)
    teacher = small_net()
    teaching = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 100):
        teaching.zero_grad()
        functional.cross_entropy(teacher(images), labels).backward()
        teaching.step()
    teacher.eval().requires_grad_(False)
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    session = watch(student, optimizer)
    for images, labels in data.batches(64, 200):
        logits = student(images)
        wanted = (teacher(images) / 4).softmax(1)
        loss = 16 * functional.kl_div((logits / 4).log_softmax(1), wanted, reduction="batchmean")
        loss = 0.9 * loss + 0.1 * functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(student, data)


@healthy(at_least=0.8)
def two_views_that_agree_before_a_probe(watch: Watch, *, seed: int) -> float:
    """SimCLR's loss pulls noisy views of a digit together; a probe of the frozen codes follows in another session."""
    data = glyphs(seed, flat=True)
    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    session = watch(encoder, optimizer)
    for pixels, _ in data.batches(96, 150):
        one, two = (functional.normalize(encoder(pixels + 0.4 * torch.randn_like(pixels)), dim=1) for _ in range(2))
        likeness = one @ two.T / 0.2
        loss = functional.cross_entropy(likeness, torch.arange(len(pixels)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=likeness, targets=torch.arange(len(pixels)))
        optimizer.step()
    codes, test = predicted(encoder, data.inputs), predicted(encoder, data.test_inputs)
    mean, std = codes.mean(0), codes.std(0) + 1e-6
    probed = Data((codes - mean) / std, data.targets, (test - mean) / std, data.test_targets)
    probe = nn.Linear(32, 10)
    fit(watch, probe, torch.optim.Adam(probe.parameters(), lr=2e-2), probed, steps=150)
    return accuracy(probe, probed)


@healthy(at_least=0.8)
def adapters_of_a_low_rank(watch: Watch, *, seed: int) -> float:
    """LoRA: a trained net rests, and adapters whose second matrix starts at 0 tune it to digits upside down."""
    data = glyphs(seed, flat=True)
    base = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    early = torch.optim.Adam(base.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 150):
        early.zero_grad()
        functional.cross_entropy(base(pixels), labels).backward()
        early.step()

    class Adapted(nn.Module):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__()
            self.layer = copy.deepcopy(layer).requires_grad_(False)
            self.down, self.up = nn.Linear(layer.in_features, 8, bias=False), nn.Linear(8, layer.out_features)
            nn.init.zeros_(self.up.weight)
            nn.init.zeros_(self.up.bias)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.layer(rows) + 2 * self.up(self.down(rows))

    model = nn.Sequential(Adapted(base[0]), nn.ReLU(), Adapted(base[2]))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=5e-3)
    turned = Data(data.inputs.flip(1), data.targets, data.test_inputs.flip(1), data.test_targets)
    fit(watch, model, optimizer, turned, steps=250, batch_size=48)
    return accuracy(model, turned)
