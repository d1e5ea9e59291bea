"""Sound models in which zeros, still parameters or swinging losses are part of the design."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened50.h_kit import NameReader, centred_digits, dense, learn, paired, pictures, reconstruction


@healthy(at_least=0.3)
def adversary_that_judges_lower_halves(watch: Watch, *, seed: int) -> float:
    """A generator completes digits against a discriminator, whose losses swing; a squared error keeps it near."""
    data = paired(samples.halves(seed))
    model = nn.ModuleDict({"generator": dense(32, 96, 32), "judge": dense(64, 48, 1, activation=nn.Tanh)})
    optimizer = torch.optim.Adam(model["generator"].parameters(), lr=2e-3, betas=(0.5, 0.99))
    judging = torch.optim.Adam(model["judge"].parameters(), lr=5e-4, betas=(0.5, 0.99))
    session = watch(model["generator"], optimizer)
    for upper, lower in data.batches(64, 300):
        made = model["generator"](upper)
        real, fake = model["judge"](torch.cat([upper, lower], 1)), model["judge"](torch.cat([upper, made.detach()], 1))
        judged = functional.softplus(-real).mean() + functional.softplus(fake).mean()
        judging.zero_grad()
        judged.backward()
        judging.step()
        optimizer.zero_grad()
        fooled = functional.softplus(-model["judge"](torch.cat([upper, made], 1))).mean()
        loss = 0.005 * fooled + functional.mse_loss(made, lower)
        loss.backward()
        session.step(loss, inputs=upper, outputs=made, targets=lower)
        optimizer.step()
    return explained(predicted(model["generator"], data.test_inputs), data.test_targets)


class Variational(nn.Module):
    """A variational autoencoder, whose posterior begins at its prior."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.moments, self.decoder = dense(64, 64, 48), nn.Linear(48, 20), dense(10, 48, 64)
        nn.init.normal_(self.moments.weight, std=1e-3)
        nn.init.zeros_(self.moments.bias)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns pixels and the divergence."""
        mean, log_variance = self.moments(self.encoder(pixels).relu()).chunk(2, -1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
        return self.decoder(mean + noise * (0.5 * log_variance).exp()), divergence


@healthy(at_least=0.3)
def posterior_that_begins_at_its_prior(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence begins at 0 and rises while its weight is warmed up."""
    data = reconstruction(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(96, 350)):
        outputs, divergence = model(pixels)
        error = (outputs - pixels).square().sum(-1) / 0.03
        loss = (0.5 * error + min(1.0, step / 150) * divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[0], data.test_targets)


class LowRank(nn.Module):
    """A frozen linear layer and a product of two thin matrices, one of which begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 6) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the sum of both."""
        return self.layer(values) + values @ self.down.T @ self.up.T


@healthy(at_least=0.8)
def thin_matrices_beside_trained_layers(watch: Watch, *, seed: int) -> float:
    """A net that tells small digits is adapted to all ten by LoRA, whose first gradients are 0 in one matrix of two."""
    data = centred_digits(seed)
    model = dense(64, 64, 64, 10)
    before = torch.optim.Adam(model.parameters(), lr=2e-3)
    small = data.targets < 5
    for _ in range(80):
        before.zero_grad()
        functional.cross_entropy(model(data.inputs[small]), data.targets[small]).backward()
        before.step()
    model = nn.Sequential(*(LowRank(one) if isinstance(one, nn.Linear) else one for one in model))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


class Experts(nn.Module):
    """Twelve experts, of which a gate takes the two best for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(dense(64, 12, 10) for _ in range(12))
        self.gate = nn.Linear(64, 12)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        best, chosen = self.gate(pixels).topk(2, dim=-1)
        outputs = torch.stack([expert(pixels) for expert in self.experts], 1)
        taken = outputs.gather(1, chosen[..., None].expand(-1, -1, 10))
        return (best.softmax(-1)[..., None] * taken).sum(1)


@healthy(at_least=0.85)
def two_of_twelve_experts_at_a_time(watch: Watch, *, seed: int) -> float:
    """A gate sends each digit to two of twelve experts; some of them are hardly asked in a batch."""
    data = centred_digits(seed)
    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=220)
    return accuracy(model, data)


@healthy(at_least=0.85)
def pretrained_filters_left_as_they_are(watch: Watch, *, seed: int) -> float:
    """Filters that were trained on half of the images stay frozen in eval mode, and a new head is trained on all."""
    data = pictures(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip
    first = nn.Sequential(body, nn.Linear(96, 10))
    before = torch.optim.Adam(first.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 60):
        before.zero_grad()
        functional.cross_entropy(first(images), labels).backward()
        before.step()
    body.requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.6)
def overcomplete_code_of_few_active_units(watch: Watch, *, seed: int) -> float:
    """An autoencoder's 128 ReLUs are kept sparse by a small L1 penalty, so that most are zero for a sample."""
    data = reconstruction(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def objective(pixels: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = encoder(pixels)
        outputs = decoder(codes)
        return functional.mse_loss(outputs, pixels) + 2e-3 * codes.mean(), outputs

    learn(watch, model, optimizer, data, objective, steps=300)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Tied(nn.Module):
    """A model of characters whose embedding is also its last layer."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.gru, self.leave = nn.GRU(width, width, batch_first=True), nn.Linear(width, datasets.CHARACTERS)
        self.leave.weight = self.embedding.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits for each character."""
        return self.leave(self.gru(self.embedding(codes))[0])


@healthy(at_least=0.3)
def characters_in_and_out_by_one_table(watch: Watch, *, seed: int) -> float:
    """A character model shares one matrix between its embedding and its last layer."""
    data = datasets.text(seed, length=24)
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(
        watch, model, optimizer, data, steps=180, batch_size=48,
        loss_function=lambda outputs, targets: functional.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
    )  # fmt: skip
    return accuracy(model, data)


@healthy(at_least=0.65)
def names_padded_with_a_silent_row(watch: Watch, *, seed: int) -> float:
    """The embedding's row for the padding is zero and gets no gradient, and rare letters hardly any."""
    data = paired(samples.names(seed))
    model = NameReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=55)
    return accuracy(model, data)


class Slow(nn.Module):
    """A student with a predictor, and a teacher that follows it slowly and gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Sequential(dense(64, 96, 48), nn.BatchNorm1d(48))
        self.predictor = dense(48, 64, 48)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns what the predictor expects of the teacher."""
        return self.predictor(self.student(pixels))


@healthy(at_least=0.8)
def teacher_that_follows_its_student(watch: Watch, *, seed: int) -> float:
    """Self-supervision by a moving average of the student, judged by its codes' nearest neighbours."""
    data = centred_digits(seed)
    model = Slow()
    learned = [*model.student.parameters(), *model.predictor.parameters()]
    optimizer = torch.optim.Adam(learned, lr=1e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(128, 150):
        one, other = (pixels + 0.3 * torch.randn_like(pixels) for _ in range(2))
        outputs = model(one)
        with torch.no_grad():
            targets = model.teacher(other)
        loss = 2 - 2 * functional.cosine_similarity(outputs, targets).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=one, outputs=outputs, targets=targets)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model.teacher.parameters(), model.student.parameters(), strict=True):
                slow.lerp_(fast, 0.03)
    known, asked = predicted(model.student, data.inputs), predicted(model.student, data.test_inputs)
    return (data.targets[torch.cdist(asked, known).argmin(1)] == data.test_targets).float().mean().item()
