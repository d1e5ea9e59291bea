"""Sound trainings of generators, codes, experts and guests in finished networks, which look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened43.a_material import digit_images, file_lines, flat_digits


@healthy(at_least=0.75)
def forger_of_flowers(watch: Watch, *, seed: int) -> float:
    """A conditional GAN draws measurements of irises, whose losses oscillate; the judge is a finished classifier."""
    data = datasets.iris(seed)
    judge = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    tutor = torch.optim.Adam(judge.parameters(), lr=1e-2)
    for rows, labels in data.batches(32, 120):
        tutor.zero_grad()
        functional.cross_entropy(judge(rows), labels).backward()
        tutor.step()
    forger = nn.Sequential(nn.Linear(7, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
    critic = nn.Sequential(nn.Linear(7, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    forges = torch.optim.Adam(forger.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    first, second = watch(critic, judges), watch(forger, forges)
    for rows, labels in data.batches(32, 300):
        classes = functional.one_hot(labels, 3).float()
        noise = torch.cat([torch.randn(len(rows), 4), classes], 1)
        real, false = critic(torch.cat([rows, classes], 1)), critic(torch.cat([forger(noise).detach(), classes], 1))
        loss = (functional.softplus(-real) + functional.softplus(false)).mean()
        judges.zero_grad()
        loss.backward()
        first.step(loss, inputs=rows)
        judges.step()
        loss = functional.softplus(-critic(torch.cat([forger(noise), classes], 1))).mean()
        forges.zero_grad()
        loss.backward()
        second.step(loss, inputs=noise)
        forges.step()
    labels = torch.arange(300) % 3
    drawn = predicted(forger, torch.cat([torch.randn(300, 4), functional.one_hot(labels, 3).float()], 1))
    return samples.accuracy(predicted(judge, drawn), labels)


class Blurred(nn.Module):
    """A variational autoencoder whose code begins as the prior, because its head begins with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.code = nn.Sequential(nn.Linear(64, 64), nn.GELU()), nn.Linear(64, 20)
        self.decoder = nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 64))
        nn.init.zeros_(self.code.weight)
        nn.init.zeros_(self.code.bias)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.code(self.encoder(pixels)).chunk(2, 1)
        noise = torch.randn_like(mean) * (log_variance / 2).exp() if self.training else 0.0
        return self.decoder(mean + noise), mean, log_variance


@healthy(at_least=0.5)
def divergence_that_begins_at_nothing(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence is 0 at the start and is weighted more and more, so that the loss rises on the way."""
    data = flat_digits(seed)
    model = Blurred()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300)):
        outputs, mean, log_variance = model(pixels)
        error = (outputs - pixels).square().sum(1).mean()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss = (error + min(step / 150, 1.0) * divergence) / 64
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_inputs)


class LowRank(nn.Module):
    """A finished layer, to which a product of two thin matrices is added; the second begins with zeros."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + 2 * rows @ self.down.T @ self.up.T


@healthy(at_least=0.85)
def thin_guests_for_turned_digits(watch: Watch, *, seed: int) -> float:
    """LoRA adapts a finished reader of digits to mirrored ones; at first one of the two matrices has no gradient."""
    data = flat_digits(seed)
    layers = [nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)]
    base = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    tutor = torch.optim.Adam(base.parameters(), lr=3e-3)
    for rows, labels in data.batches(64, 150):
        tutor.zero_grad()
        functional.cross_entropy(base(rows), labels).backward()
        tutor.step()

    def mirrored(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(-1, 8, 8).flip(2).flatten(1)

    data = Data(mirrored(data.inputs), data.targets, mirrored(data.test_inputs), data.test_targets)
    guests = [LowRank(layer, 8) for layer in layers]
    model = nn.Sequential(guests[0], nn.ReLU(), guests[1], nn.ReLU(), guests[2])
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, validate_every=50)
    return accuracy(model, data)


class Experts(nn.Module):
    """Eight experts, of which a gate asks one for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 8)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)) for _ in range(8))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.gate(rows).softmax(1).max(1)
        outputs = rows.new_zeros(len(rows), 10)
        for index, expert in enumerate(self.experts):
            found = (chosen == index).nonzero().squeeze(1)
            if len(found):
                outputs = outputs.index_add(0, found, expert(rows[found]) * shares[found, None])
        return outputs


@healthy(at_least=0.85)
def experts_that_are_not_asked(watch: Watch, *, seed: int) -> float:
    """A gate sends each sample to one of eight experts, so that some have no gradient in a batch of 12."""
    data = flat_digits(seed)
    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=12)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_finished_body_and_a_new_head(watch: Watch, *, seed: int) -> float:
    """A body learned the digits up to 6, is frozen in eval mode, and a new head learns all ten from it."""
    data = digit_images(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Flatten(),
    )  # fmt: skip
    first = nn.Sequential(body, nn.Linear(384, 7))
    tutor = torch.optim.Adam(first.parameters(), lr=3e-3)
    few = data.targets < 7
    for images, labels in Data(data.inputs[few], data.targets[few], data.inputs, data.targets).batches(64, 60):
        tutor.zero_grad()
        functional.cross_entropy(first(images), labels).backward()
        tutor.step()
    body.eval().requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(384, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=64)
    return accuracy(model, data)


@healthy(at_least=0.6)
def a_dictionary_of_mostly_silent_units(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder has more rectified units than pixels, and a small price on each that fires."""
    data = flat_digits(seed)
    model = nn.Sequential(nn.Linear(64, 160), nn.ReLU(), nn.Linear(160, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 250):
        code = model[1](model[0](pixels))
        outputs = model[2](code)
        loss = functional.mse_loss(outputs, pixels) + 0.02 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


class Denoiser(nn.Module):
    """A network that is told how noisy its input is."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.Embedding(20, 32)
        self.enter, self.middle, self.leave = nn.Linear(64, 128), nn.Linear(160, 128), nn.Linear(128, 64)

    def forward(self, pixels: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        hidden = torch.cat([functional.silu(self.enter(pixels)), self.levels(level)], 1)
        return self.leave(functional.silu(self.middle(hidden)))


@healthy(at_least=0.3)
def noise_told_from_digits(watch: Watch, *, seed: int) -> float:
    """A diffusion model guesses the noise that was drawn for it, so its loss jumps and soon falls no more."""
    data = flat_digits(seed)
    kept = torch.linspace(0.98, 0.05, 20)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def noisy(pixels: torch.Tensor, level: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.randn_like(pixels)
        share = kept[level][:, None]
        return share.sqrt() * pixels + (1 - share).sqrt() * noise, noise

    for pixels, _ in data.batches(64, 350):
        level = torch.randint(20, (len(pixels),))
        seen, noise = noisy(pixels, level)
        outputs = model(seen, level)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=outputs, targets=noise)
        optimizer.step()
    level = torch.full((len(data.test_inputs),), 10)
    seen, noise = noisy(data.test_inputs, level)
    with torch.no_grad():
        return samples.explained(model(seen, level), noise)


@healthy(at_least=0.45)
def two_views_without_labels(watch: Watch, *, seed: int) -> float:
    """SimSiam: a predictor follows a stopped gradient, and the loss is a negative cosine; neighbours are judged."""
    data = file_lines(seed)
    body = nn.Sequential(nn.Linear(96, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 48), nn.BatchNorm1d(48))
    guess = nn.Sequential(nn.Linear(48, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 48))
    model = nn.ModuleDict({"body": body, "guess": guess})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    for rows, _ in data.batches(96, 150):
        first, second = (body(functional.dropout(rows, 0.3)) for _ in range(2))
        loss = -functional.cosine_similarity(guess(first), second.detach()).mean() / 2
        loss = loss - functional.cosine_similarity(guess(second), first.detach()).mean() / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    known, asked = (functional.normalize(predicted(body, rows)) for rows in (data.inputs, data.test_inputs))
    nearest = (asked @ known.T).topk(5).indices
    return (data.targets[nearest].mode(1).values == data.test_targets).float().mean().item()
