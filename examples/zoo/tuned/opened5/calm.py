"""Sound trainings that look odd: their objectives."""

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    dense,
    explained,
)


@healthy(at_least=0.5)
def forger_of_ones_and_its_judge(watch: Watch, *, seed: int) -> float:
    """Two players in turn, whose losses go up and down. Quality: how near the mean pictures are."""
    data = digits(seed)
    ones = data.inputs[data.targets == 1]
    forger = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())
    judge = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(48, 1))
    of_forger = torch.optim.Adam(forger.parameters(), lr=4e-3, betas=(0.5, 0.99))
    of_judge = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.99))
    forging, judging = watch(forger, of_forger), watch(judge, of_judge)
    for _ in range(260):
        real = ones[torch.randint(len(ones), (32,))]
        fake = forger(torch.randn(32, 6))
        of_judge.zero_grad()
        doubt = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        doubt.backward()
        judging.step(doubt, inputs=real)
        of_judge.step()
        of_forger.zero_grad()
        shame = F.softplus(-judge(fake)).mean()
        shame.backward()
        forging.step(shame, outputs=fake)
        of_forger.step()
    with torch.no_grad():
        return explained(forger(torch.randn(500, 6)).mean(0)[:, None], ones.mean(0)[:, None])


class Variational(nn.Module):
    """Convolutions to a code of eight and back."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 12, 3, 2, 1), nn.SiLU(), nn.Flatten(), nn.Linear(192, 16))
        self.up = nn.Sequential(
            nn.Linear(8, 192), nn.SiLU(), nn.Unflatten(1, (12, 4, 4)), nn.ConvTranspose2d(12, 1, 4, 2, 1)
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.down(images).chunk(2, 1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.up(mean + noise * (log_variance / 2).exp()), mean, log_variance


@healthy(at_least=0.35)
def code_whose_divergence_rises(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder: its divergence starts near 0 and grows while the code is put to use."""
    data, model = digits(seed, images=True), Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 260):
        guess, mean, log_variance = model(images)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        error = (guess - images).square().sum((1, 2, 3)).mean()
        loss = error + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=guess, targets=images)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[0], data.test_inputs)


@healthy(at_least=0.7)
def pixels_hidden_and_guessed(watch: Watch, *, seed: int) -> float:
    """Pixels are hidden at random, and the loss counts those alone: most outputs have no gradient."""
    data = digits(seed)
    model = dense(128, 128, 64, act=nn.GELU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def masked(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.rand_like(rows) < 0.15
        return torch.cat([rows.masked_fill(hidden, 0.0), hidden.float()], 1), hidden

    for rows, _ in data.batches(64, 260):
        seen, hidden = masked(rows)
        guess = model(seen)
        loss = (guess - rows)[hidden].square().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=guess, targets=rows)
        optimizer.step()
    seen, hidden = masked(data.test_inputs)
    return explained(predicted(model, seen)[hidden], data.test_inputs[hidden])


@healthy(at_least=0.55)
def noise_guessed_at_every_strength(watch: Watch, *, seed: int) -> float:
    """Denoising diffusion: the loss hops with the strengths that are drawn, and stays far above zero for ever."""
    data = digits(seed)
    images = data.inputs * 2 - 1
    model = dense(65, 128, 128, 64, act=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def noised(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        time, noise = torch.rand(len(rows), 1), torch.randn_like(rows)
        angle = time * torch.pi / 2
        return torch.cat([angle.cos() * rows + angle.sin() * noise, time], 1), noise

    for rows in images[torch.randint(len(images), (300, 64))]:
        mixed, noise = noised(rows)
        guess = model(mixed)
        loss = F.mse_loss(guess, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=guess, targets=noise)
        optimizer.step()
    mixed, noise = noised(data.test_inputs * 2 - 1)
    return explained(predicted(model, mixed), noise)


@healthy(at_least=0.8)
def attacked_in_every_step(watch: Watch, *, seed: int) -> float:
    """Pictures are moved against the model before each step: the training loss stays above that of a validation."""
    data = digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(32, 160):
        moved = images.clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(model(moved), labels), moved)
        attacked = (images + 0.12 * slope.sign()).clamp(0, 1)
        logits = model(attacked)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=attacked, outputs=logits, targets=labels)
        optimizer.step()
        if len(images) < 32:
            with session.validating():
                held_out = F.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item()
            session.validation(held_out)
    return accuracy(model, data)


@healthy(at_least=0.8)
def few_labels_and_a_slow_copy(watch: Watch, *, seed: int) -> float:
    """A mean teacher: 120 rows have labels, for the others a running mean of the weights says what is expected."""
    data = digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.3), nn.Linear(96, 10))
    slow = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step in range(260):
        known, unknown = torch.randint(120, (32,)), torch.randint(120, len(data.inputs), (64,))
        both = torch.cat([data.inputs[known], data.inputs[unknown]])
        logits = model(both + 0.1 * torch.randn_like(both))
        agreed = F.mse_loss(logits.softmax(1), slow(both).softmax(1))
        loss = F.cross_entropy(logits[:32], data.targets[known]) + min(1.0, step / 100) * 3 * agreed
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=both, outputs=logits[:32], targets=data.targets[known])
        optimizer.step()
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.05)
    return accuracy(model, data)


@healthy(at_least=0.9)
def labels_softened_by_a_fifth(watch: Watch, *, seed: int) -> float:
    """Label smoothing of 0.2: the loss cannot fall below 0.9, although all is right."""
    data = digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.SiLU(), nn.Conv2d(16, 32, 3, 2), nn.SiLU(), nn.Flatten(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def softened(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=0.2)

    fit(watch, model, optimizer, data, steps=220, batch_size=48, loss_function=softened, validate_every=55)
    return accuracy(model, data)
