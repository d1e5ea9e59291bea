"""Sound trainings whose parts look idle, frozen or lost."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened51.i_bench import Reader, as_data, code_lines, mlp, scripts


class Adapted(nn.Module):
    """A frozen linear layer and a product of low rank, whose second factor begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values) + 2 * values @ self.down.T @ self.up.T


@healthy(at_least=0.85)
def low_rank_changes_for_mirrored_digits(watch: Watch, *, seed: int) -> float:
    """A network of digits is adapted to mirrored ones with matrices of rank 4 beside frozen layers."""
    data = datasets.digits(seed, images=True)
    base = mlp(64, 96, 96, 10)
    before = torch.optim.Adam(base.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 150):
        before.zero_grad()
        functional.cross_entropy(base(images.flatten(1)), labels).backward()
        before.step()
    model = nn.Sequential(*(Adapted(part) if isinstance(part, nn.Linear) else part for part in base))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    mirrored = Data(
        data.inputs.flip(3).flatten(1), data.targets, data.test_inputs.flip(3).flatten(1), data.test_targets
    )
    fit(watch, model, optimizer, mirrored, steps=250)
    return accuracy(model, mirrored)


class Experts(nn.Module):
    """A gate sends each sample to the best of eight experts, times its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(96, 8)
        self.experts = nn.ModuleList(mlp(96, 24, 6) for _ in range(8))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(rows).softmax(1).max(1)
        outputs = rows.new_zeros(len(rows), 6)
        for index, expert in enumerate(self.experts):
            sent = (chosen == index).nonzero().flatten()
            if len(sent):
                outputs = outputs.index_add(0, sent, expert(rows[sent]) * weights[sent, None])
        return outputs


@healthy(at_least=0.6)
def gate_to_the_best_of_eight(watch: Watch, *, seed: int) -> float:
    """Experts that get no sample of a batch have no gradient in that step."""
    data = code_lines(seed)
    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.75)
def trained_edges_with_a_new_head(watch: Watch, *, seed: int) -> float:
    """Convolutions trained on digits below 5 are frozen, and a head for the others is trained on them."""
    data = as_data(samples.numerals(seed))
    low, high = data.targets < 5, data.targets >= 5
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 64), nn.ReLU()
    )
    first = nn.Sequential(body, nn.Linear(64, 5))
    before = torch.optim.Adam(first.parameters(), lr=2e-3)
    for images, labels in Data(data.inputs[low], data.targets[low], data.inputs, data.targets).batches(64, 100):
        before.zero_grad()
        functional.cross_entropy(first(images), labels).backward()
        before.step()
    model = nn.Sequential(body.requires_grad_(False), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=5e-3)
    kept = data.test_targets >= 5
    others = Data(data.inputs[high], data.targets[high] - 5, data.test_inputs[kept], data.test_targets[kept] - 5)
    fit(watch, model, optimizer, others, steps=200)
    return accuracy(model, others)


class Shared(nn.Module):
    """A model of characters whose head is the embedding, and whose one layer is applied three times."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(CHARACTERS, width)
        nn.init.normal_(self.letters.weight, std=0.1)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.again = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, CHARACTERS)
        self.head.weight = self.letters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        found = self.cell(self.letters(codes))[0]
        for _ in range(3):
            found = found + self.again(found)
        return self.head(found)


@healthy(at_least=0.2)
def letters_read_and_written_by_one_tensor(watch: Watch, *, seed: int) -> float:
    """Embedding and head are one tensor, and one block is used three times."""
    data = datasets.text(seed, length=16)
    model = Shared()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for codes, following in data.batches(24, 130):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.5)
def short_names_in_long_rows(watch: Watch, *, seed: int) -> float:
    """Names are padded to 24 places with a row that stays 0, and letters that occur in no batch have no gradient."""
    data = scripts(seed)
    model = Reader(width=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=32, validate_every=60)
    return accuracy(model, data)


@healthy(at_least=0.85)
def follower_of_its_own_average(watch: Watch, *, seed: int) -> float:
    """A network predicts what a slow average of itself sees in the same digit with other noise."""
    data = as_data(samples.numerals(seed))
    online = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
    average = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "guess": mlp(32, 64, 32), "average": average})
    optimizer = torch.optim.Adam([*online.parameters(), *model["guess"].parameters()], lr=1e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(96, 200):
        one, other = (images + 0.4 * torch.randn_like(images) for _ in range(2))
        outputs = model["guess"](online(one))
        with torch.no_grad():
            targets = average(other)
        loss = 2 - 2 * functional.cosine_similarity(outputs, targets).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=one, outputs=outputs, targets=targets)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.03)
    places, test_places = predicted(online, data.inputs), predicted(online, data.test_inputs)
    nearest = torch.cdist(test_places, places).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item()
