"""Units, weights, gates and number formats."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened48.f_kit import centred, data_of, mlp


class Tower(nn.Module):
    """Sixteen tanh layers, with or without their skips."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.skips = skips
        self.stem, self.head = nn.Linear(64, 40), nn.Linear(40, 10)
        self.blocks = nn.ModuleList(nn.Linear(40, 40) for _ in range(16))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        hidden = self.stem(pixels)
        for block in self.blocks:
            changed = torch.tanh(block(hidden))
            hidden = hidden + 0.5 * changed if self.skips else changed
        return self.head(hidden)


@sick("vanishing_gradients", margin=0.2)
def skips_lost_in_a_refactoring(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rewrite of a residual tower of sixteen tanh layers forgot to add the skips; the twin adds them."""
    data = centred(datasets.digits(seed))
    model = Tower(not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


class Grid(nn.Module):
    """Passes messages between neighbouring pixels of a digit."""

    def __init__(self, averaged: bool) -> None:
        super().__init__()
        places = torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0))
        near = (torch.cdist(places, places) < 1.6).float()
        self.register_buffer("near", near / near.sum(1, keepdim=True) if averaged else near)
        self.embed = nn.Linear(1, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(64 * 16, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        nodes = self.embed(pixels[:, :, None])
        for layer in self.layers:
            nodes = nodes + (self.near @ layer(nodes)).relu()
        return self.head(nodes.flatten(1))


@sick("exploding_gradients", also=("poor_initialization",), margin=0.2)
def messages_of_neighbours_summed_not_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """A graph network multiplies by the bare adjacency in each of its layers; the twin divides it by the degrees."""
    data = centred(datasets.digits(seed))
    model = Grid(not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, data, steps=100, batch_size=32)
    return accuracy(model, data)


class SparseCoder(nn.Module):
    """Unrolled shrinkage, whose last code is decoded."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.encode, self.mix, self.decode = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 64)
        self.shrink = nn.Softshrink(threshold)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        drive = self.encode(pixels)
        code = self.shrink(drive)
        for _ in range(2):
            code = self.shrink(drive + 0.5 * self.mix(code))
        return self.decode(code)


@sick("dead_units", margin=0.2)
def shrinkage_above_every_code(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse coder's threshold is for pixels up to 255, so that all codes are 0; the twin's is 0.02."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = SparseCoder(4.0 if sick else 0.02)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def weights_from_minus_one_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights are ``2 * rand - 1``, as in a numpy tutorial, and all tanhs saturate; the twin draws Xavier's."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 128, 128, 128, 10, activation=nn.Tanh)
    for layer in model[::2]:
        if sick:
            nn.init.uniform_(layer.weight, -1, 1)
        else:
            nn.init.xavier_uniform_(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.1)
def deviation_of_language_models_in_a_bare_tower(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six layers without skips or norms are drawn with a deviation of 0.02, as in BERT; the twin draws Kaiming's."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 64, 64, 64, 64, 64, 10)
    for layer in model[::2]:
        if sick:
            nn.init.normal_(layer.weight, std=0.02)
        else:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


class Experts(nn.Module):
    """Eight narrow experts, mixed by a gate that begins even."""

    def __init__(self, copied: bool) -> None:
        super().__init__()
        first = mlp(64, 3, 10, activation=nn.Tanh)
        drawn = (copy.deepcopy(first) if copied else mlp(64, 3, 10, activation=nn.Tanh) for _ in range(8))
        self.experts = nn.ModuleList(drawn)
        self.gate = nn.Linear(64, 8)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        answers = torch.stack([expert(pixels) for expert in self.experts], 1)
        return (self.gate(pixels).softmax(1)[:, :, None] * answers).sum(1)


@sick("unbroken_symmetry", margin=0.1)
def experts_copied_from_one_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """Experts are deep copies of one and their gate begins even, so they stay equal; the twin draws each of them."""
    data = centred(datasets.digits(seed))
    model = Experts(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


class Chunks(nn.Module):
    """Attends within the thirds of a name, then averages them."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.lowest = lowest
        self.embed, self.score = nn.Embedding(samples.LETTERS, 32, padding_idx=0), nn.Linear(32, 4)
        self.head = mlp(3 * 4 * 32, 48, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        chunks = codes.view(len(codes), 3, 8)
        letters = self.embed(chunks)
        scores = self.score(letters).masked_fill((chunks == 0)[..., None], self.lowest)
        return self.head((scores.softmax(2).transpose(2, 3) @ letters).flatten(1))


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def attention_over_nothing_but_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """Thirds of short names are all padding, where a softmax of minus infinities is NaN; the twin masks with -1e4."""
    data = data_of(samples.names(seed))
    model = Chunks(-torch.inf if sick else -1e4)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.2)
def root_of_the_distance_to_oneself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Triplets are mined by roots of distances, with a gradient of NaN on the diagonal; the twin adds 1e-4."""
    data = centred(datasets.digits(seed))
    model = mlp(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        squares = (outputs[:, None] - outputs[None]).square().sum(2)
        distances = (squares if sick else squares + 1e-4).sqrt()
        same = targets[:, None] == targets[None]
        farthest = (distances * same).amax(1)
        nearest = (distances + 1e3 * same).amin(1)
        loss = functional.relu(farthest - nearest + 0.5).mean()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    places, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    centres = torch.stack([places[data.targets == label].mean(0) for label in range(10)])
    if not asked.isfinite().all():
        return 0.0
    return (torch.cdist(asked, centres).argmin(1) == data.test_targets).float().mean().item()


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.1)
def likelihood_divided_by_all_pixels_in_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mean error is divided by the data's number of pixels, too small for float16's gradients; the twin scales it."""
    pixels = datasets.patches(seed, count=1600) / 255 - 0.5
    data = Data(pixels[:1200], pixels[:1200], pixels[1200:], pixels[1200:])
    model = mlp(64, 128, 24, 128, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(128, 180):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
        loss = functional.mse_loss(outputs.float(), targets) / data.inputs.numel()
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)
