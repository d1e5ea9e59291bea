"""What goes wrong between a network's layers: its scales, its units and its numbers."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened49.g_kit import counted, flat, layers, lower, spelled


class Tower(nn.Module):
    """A stack of small blocks, each of which is added to what it reads, or is not."""

    def __init__(self, depth: int, skips: bool) -> None:
        super().__init__()
        self.skips, self.first, self.last = skips, nn.Linear(64, 32), nn.Linear(32, 10)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(depth))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        state = self.first(pixels)
        for block in self.blocks:
            state = state + 0.3 * block(state) if self.skips else block(state)
        return self.last(state)


@sick("vanishing_gradients", margin=0.2)
def tower_that_lost_its_skips(watch: Watch, *, seed: int, sick: bool) -> float:
    """A refactoring dropped the sums around fourteen blocks of tanhs; the twin has them."""
    data = flat(seed)
    model = Tower(14, skips=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


class Branches(nn.Module):
    """Residual blocks without norms, whose second layers are scaled."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self.blocks = nn.ModuleList(layers(32, 32, 32) for _ in range(16))
        for block in self.blocks:
            for layer in block[0], block[2]:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
            with torch.no_grad():
                block[2].weight.mul_(scale)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        state = self.first(pixels)
        for block in self.blocks:
            state = state + block(state)
        return self.last(state)


@sick("exploding_gradients", also=("poor_initialization",), margin=0.1)
def sixteen_branches_at_full_size(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of sixteen residual branches without a norm multiplies the variance; the twin's begin at 0.1 of the size."""
    data = flat(seed)
    model = Branches(1.0 if sick else 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.2)
def detection_prior_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of a detector's prior, ``-log(99)``, is given to all layers; the twin gives it to the last one alone."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip
    for index, layer in enumerate(model):
        if hasattr(layer, "bias") and (sick or index == len(model) - 1):
            nn.init.constant_(layer.bias, -math.log(99))

    def each_class(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        wanted = functional.one_hot(labels, 10).float()
        return functional.binary_cross_entropy_with_logits(outputs, wanted)

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=each_class)
    return accuracy(model, data)


class Highway(nn.Module):
    """Layers whose gates choose between what they read and what they make of it."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 1)
        self.makes = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.gates = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        for gate in self.gates:
            nn.init.constant_(gate.bias, bias)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns an amount."""
        state = self.first(pixels)
        for make, gate in zip(self.makes, self.gates, strict=True):
            opened = torch.sigmoid(gate(state))
            state = opened * torch.relu(make(state)) + (1 - opened) * state
        return self.last(state)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def highway_whose_gates_are_shut(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gates of a highway network begin at a bias of -20, and never open; the twin's begin at -1."""
    data = counted(seed)
    model = Highway(-20.0 if sick else -1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return r_squared(model, data)


class TiedReader(nn.Module):
    """Foretells a character from those before it; the embedding is the last layer's matrix too."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.characters = nn.Embedding(datasets.CHARACTERS, 64)
        nn.init.normal_(self.characters.weight, std=deviation)
        self.recurrence = nn.GRU(64, 64, batch_first=True)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, datasets.CHARACTERS, bias=False)
        self.head.weight = self.characters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, L, characters)."""
        return self.head(self.norm(self.recurrence(self.characters(codes))[0]))


@sick("poor_initialization", margin=0.03)
def tied_table_with_a_deviation_of_three(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tied embedding is drawn with deviation 3, so logits begin at about 25; the twin's deviation is 0.1."""
    data = datasets.text(seed, length=16, count=1200)
    model = TiedReader(3.0 if sick else 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def per_character(outputs: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), codes.flatten())

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=per_character)
    return accuracy(model, data)


class Upcycled(nn.Module):
    """A mixture of linear experts, which begin as copies of one, and of a router, which begins at 0."""

    def __init__(self, copies: bool) -> None:
        super().__init__()
        dense = nn.Linear(64, 1)
        self.experts = nn.ModuleList(copy.deepcopy(dense) if copies else nn.Linear(64, 1) for _ in range(12))
        self.router = nn.Linear(64, 12)
        if copies:
            nn.init.zeros_(self.router.weight)
            nn.init.zeros_(self.router.bias)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns an amount."""
        answers = torch.cat([expert(pixels) for expert in self.experts], 1)
        return (self.router(pixels).softmax(1) * answers).sum(1, keepdim=True)


@sick("unbroken_symmetry", margin=0.1)
def experts_copied_from_one_dense_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve experts begin as copies with a router of zeros, and remain equal; the twin draws each of them."""
    data = counted(seed)
    model = Upcycled(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return r_squared(model, data)


class Chunked(nn.Module):
    """Attends within each chunk of six letters, and averages the chunks."""

    def __init__(self, hidden: float) -> None:
        super().__init__()
        self.hidden = hidden
        self.letters, self.score = nn.Embedding(40, 32), nn.Linear(32, 1)
        self.value, self.head = nn.Linear(32, 48), nn.Linear(48, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits of scripts."""
        chunks = codes.view(len(codes), 4, 6)
        found = self.letters(chunks)
        scores = self.score(found).squeeze(-1).masked_fill(chunks == 0, self.hidden)
        pooled = (scores.softmax(-1).unsqueeze(-1) * self.value(found)).sum(2)
        return self.head(torch.relu(pooled).mean(1))


@sick("non_finite_forward", margin=0.2)
def softmax_over_a_chunk_of_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """Chunks that are all padding are masked with ``-inf``, and softmax gives NaN; the twin masks with -1e4."""
    data = spelled(seed)
    model = Chunked(-math.inf if sick else -1e4)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.3)
def distances_of_points_to_themselves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pairwise distances have a diagonal of roots of 0, whose gradient is NaN; the twin adds 1e-6 below the root."""
    data = flat(seed)
    model = layers(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 150):
        points = model(pixels)
        squares = (points[:, None] - points[None]).square().sum(-1)
        distances = (squares if sick else squares + 1e-6).sqrt()
        same = labels[:, None] == labels
        loss = distances[same].square().mean() + (2 - distances[~same]).clamp(min=0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=points, targets=labels)
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    centres = torch.stack([known[data.targets == label].mean(0) for label in range(10)])
    nearest = (asked[:, None] - centres).square().sum(-1).argmin(1)
    return (nearest == data.test_targets).float().mean().item()


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.1)
def errors_rescaled_from_bytes_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors of scaled pixels are divided by 255², in float16 without a scaler; the twin has a ``GradScaler``."""
    data = lower(seed)
    model = layers(32, 96, 64, 32, activation=nn.GELU)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for upper, below in data.batches(64, 220):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(upper)
        loss = functional.mse_loss(outputs.float(), below) / 255**2
        scaler.scale(loss).backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=below)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Variational(nn.Module):
    """A variational autoencoder of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = layers(64, 64, 16), layers(8, 64, 64)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns logits of pixels, and the code's means and log-variances."""
        means, variances = self.encode(pixels).chunk(2, 1)
        noise = torch.randn_like(means) if self.training else 0.0
        return self.decode(means + noise * (variances / 2).exp()), means, variances


@sick("over_regularized", margin=0.2)
def divergence_summed_and_pixels_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """A divergence is summed over codes while pixels are averaged, so that codes collapse; the twin sums the pixels."""
    data = datasets.digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        logits, means, variances = model(pixels)
        each = functional.binary_cross_entropy_with_logits(logits, pixels, reduction="none")
        rebuilt = each.mean(1) if sick else each.sum(1)
        divergence = -0.5 * (1 + variances - means.square() - variances.exp()).sum(1)
        loss = (rebuilt + divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return explained(model(data.test_inputs)[0].sigmoid(), data.test_inputs)
