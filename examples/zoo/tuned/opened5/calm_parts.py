"""Sound trainings that look odd: their parts, and rows that count differently."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, digits, iris, wine
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import proline
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    VOCABULARY,
    VOWELS,
    chunks,
    correct,
    dense,
    evenly,
    explained,
    in_deviations,
    turned,
    words,
)


@healthy(at_least=0.65)
def two_thirds_of_the_units_dropped(watch: Watch, *, seed: int) -> float:
    data = turned(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Dropout2d(0.2), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.65), nn.Linear(512, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=32, validate_every=55)
    return accuracy(model, data)


@healthy(at_least=0.75)
def linear_probe_on_a_network_that_knows_turns(watch: Watch, *, seed: int) -> float:
    """A stem that learned to tell turns is frozen and in eval mode; a linear layer learns the digits."""
    task, data = turned(seed), digits(seed, images=True)
    stem = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten()
    )
    before = nn.Sequential(stem, nn.Linear(256, 4))
    first = torch.optim.Adam(before.parameters(), lr=4e-3)
    for images, quarters in task.batches(64, 120):
        first.zero_grad()
        F.cross_entropy(before(images), quarters).backward()
        first.step()
    stem.requires_grad_(False)
    model = nn.Sequential(stem, nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=8e-3)
    session = watch(model, optimizer)
    model.train()
    stem.eval()
    for images, labels in data.batches(64, 160):
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def thirty_flowers(watch: Watch, *, seed: int) -> float:
    """Thirty rows are all there is; a small network with decay generalises from them."""
    data = iris(seed)
    data = Data(data.inputs[:30], data.targets[:30], data.test_inputs, data.test_targets)
    model = dense(4, 8, 3, act=nn.Tanh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.3)
    fit(watch, model, optimizer, data, steps=160, batch_size=10, validate_every=20)
    return accuracy(model, data)


class Adapted(nn.Module):
    """A frozen layer with a product of two thin matrices beside it, the second of which begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 3) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(layer.in_features, rank) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(rank, layer.out_features))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values) + values @ self.down @ self.up


@healthy(at_least=0.8)
def thin_matrices_for_upside_down_digits(watch: Watch, *, seed: int) -> float:
    """Low-rank adapters: ``down`` has a gradient of exactly zero in the first step."""
    data = digits(seed)
    model = dense(64, 64, 64, 10)
    first = torch.optim.Adam(model.parameters(), lr=4e-3)
    for rows, labels in data.batches(64, 120):
        first.zero_grad()
        F.cross_entropy(model(rows), labels).backward()
        first.step()
    for place in (0, 2, 4):
        model[place] = Adapted(model[place], 8)
    data = Data(data.inputs.flip(1), data.targets, data.test_inputs.flip(1), data.test_targets)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=6e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=48, validate_every=60)
    return accuracy(model, data)


@healthy(at_least=0.65)
def experts_of_which_each_word_asks_one(watch: Watch, *, seed: int) -> float:
    """A mixture with a hard choice: an expert that nobody asks in a batch has no gradient in that step."""

    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Embedding(ALPHABET, 12), nn.Flatten())
            self.router = nn.Linear(192, 6)
            self.experts = nn.ModuleList(dense(192, 32, VOWELS) for _ in range(6))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            values = self.stem(codes)
            weight, choice = self.router(values).softmax(1).max(1)
            out = torch.zeros(len(codes), VOWELS)
            for number, expert in enumerate(self.experts):
                rows = (choice == number).nonzero()[:, 0]
                if len(rows):
                    out = out.index_copy(0, rows, expert(values[rows]) * weight[rows, None])
            return out

    data, model = words(seed), Mixture()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=260, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.7)
def most_places_are_padding(watch: Watch, *, seed: int) -> float:
    """Words in rows of forty: three quarters are padding, whose vector is zero and never moves."""
    data = words(seed, length=40)
    model = nn.Sequential(nn.EmbeddingBag(ALPHABET, 16, mode="sum", padding_idx=0), *dense(16, 32, VOWELS))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.4)
def proline_with_its_scale_in_the_model(watch: Watch, *, seed: int) -> float:
    """Targets from 278 to 1680, and features as measured: the model standardises both by itself."""
    train, test = proline(seed)

    class Scaled(nn.Module):
        def __init__(self, rows: torch.Tensor, targets: torch.Tensor) -> None:
            super().__init__()
            for name, values in (("rows", rows), ("targets", targets)):
                self.register_buffer(f"{name}_mean", values.mean(0))
                self.register_buffer(f"{name}_std", values.std(0))
            self.body = dense(12, 24, 1, act=nn.Tanh)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.body((rows - self.rows_mean) / self.rows_std) * self.targets_std + self.targets_mean

    data = Data(*train.tensors, *test.tensors)
    model = Scaled(data.inputs, data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=300, batch_size=30, loss_function=F.smooth_l1_loss, validate_every=50)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.8)
def wines_that_ask_their_neighbours(watch: Watch, *, seed: int) -> float:
    """A graph of all wines in each step, where one in five has a label: the loss sees few rows, outputs are all."""
    data = in_deviations(wine(seed, raw=True))
    rows = torch.cat([data.inputs, data.test_inputs])
    near = torch.cdist(rows, rows).topk(6, largest=False).indices
    graph = torch.zeros(len(rows), len(rows)).scatter_(1, near, 1 / 6)
    known = torch.arange(len(data.inputs))[::5]

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.out = nn.Linear(13, 24), nn.Linear(24, 3)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.out(F.dropout(graph @ self.enter(values).relu(), 0.3, self.training))

    model = Graph()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(120):
        logits = model(rows)
        loss = F.cross_entropy(logits[known], data.targets[known])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits[known], targets=data.targets[known])
        optimizer.step()
    return correct(predicted(model, rows)[len(data.inputs) :], data.test_targets)


@healthy(at_least=0.75)
def rare_book_weighed_up(watch: Watch, *, seed: int) -> float:
    """One chunk in twelve is of the book that is sought; a weight in the loss makes up for it. Quality: mean recall."""
    data = chunks(seed)
    rare = (data.targets == 1).long()
    kept = (rare == 0) | (rare.cumsum(0) <= 80)
    inputs, labels = data.inputs[kept], rare[kept]
    data = Data(inputs, labels, data.test_inputs, (data.test_targets == 1).long())
    weight = len(labels) / (2 * labels.bincount().float())
    model = nn.Sequential(nn.EmbeddingBag(VOCABULARY, 16, padding_idx=0), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=140, batch_size=64,
        loss_function=lambda logits, labels: F.cross_entropy(logits, labels, weight), validate_every=50,
    )  # fmt: skip
    return evenly(predicted(model, data.test_inputs), data.test_targets)
