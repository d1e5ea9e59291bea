"""What is wrong with how rows come together: mixed in a tensor, of one kind, or always the same."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import (
    checked,
    cooked,
    flat_numerals,
    glances,
    ladled,
    layers,
    right,
    served,
    simmered,
)  # fmt: skip


class Attentive(nn.Module):
    """A block of attention by hand over the rows of a digit, with one product for queries, keys and values."""

    def __init__(self, *, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed
        self.rows = nn.Linear(8, 24)
        self.places = nn.Parameter(0.02 * torch.randn(8, 24))
        self.norm = nn.LayerNorm(24)
        self.qkv = nn.Linear(24, 72)
        self.project = nn.Linear(24, 24)
        self.head = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 10))

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.rows(images[:, 0]) + self.places
        batch, places, width = tokens.shape
        parts = self.qkv(self.norm(tokens))
        if self.mixed:
            queries, keys, values = parts.reshape(3, batch, places, width)
        else:
            queries, keys, values = parts.reshape(batch, places, 3, width).permute(2, 0, 1, 3)
        seen = (queries @ keys.transpose(1, 2) / width**0.5).softmax(2) @ values
        return self.head(self.project(seen).relu().amax(1))


@sick("batch_mixing")
def three_parts_of_another_shape(watch: Watch, *, seed: int, sick: bool) -> float:
    """``qkv.reshape(3, batch, …)`` without a ``permute`` takes queries, keys and values from three different digits."""
    train, test = samples.numerals(seed)
    model = Attentive(mixed=sick)
    optimizer = optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
    cooked(watch, model, optimizer, ladled(train, 32, 260), steps=260)
    return right(model, test)


class BothWays(nn.Module):
    """Reads a digit's rows downwards and upwards."""

    def __init__(self, *, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed
        self.cell = nn.LSTM(8, 20, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, rows: Tensor) -> Tensor:
        _, (last, _) = self.cell(rows.view(-1, 8, 8))
        code = last.view(-1, 40) if self.mixed else torch.cat([last[0], last[1]], 1)
        return self.head(code)


@sick("batch_mixing")
def last_states_viewed_as_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """``h_n`` is (directions, batch, units), and ``h_n.view(batch, -1)`` puts two digits' states side by side."""
    train, test = flat_numerals(seed)
    model = BothWays(mixed=sick)
    optimizer = optim.RMSprop(model.parameters(), lr=4e-3)
    cooked(watch, model, optimizer, ladled(train, 32, 230), steps=230, check=checked(model, test))
    return right(model, test)


class Crops(nn.Module):
    """Averages what a net says of four crops of each picture."""

    def __init__(self, *, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 10)
        )

    def forward(self, images: Tensor) -> Tensor:
        crops = torch.stack([images[:, :, i : i + 6, j : j + 6] for i in (0, 2) for j in (0, 2)], 1)
        said = self.net(crops.flatten(0, 1))
        return said.view(4, -1, 10).mean(0) if self.mixed else said.view(-1, 4, 10).mean(1)


@sick("batch_mixing")
def four_crops_gathered_in_the_wrong_order(watch: Watch, *, seed: int, sick: bool) -> float:
    """Crops are flattened as (pictures, crops) and averaged as (crops, pictures): each mean is of four pictures."""
    train, test = samples.numerals(seed)
    model = Crops(mixed=sick)
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9, nesterov=True)
    cooked(watch, model, optimizer, ladled(train, 32, 200), steps=200)
    return right(model, test)


def _of_one_kind(labels: Tensor, size: int) -> list[list[int]]:
    """Batches whose rows share a label, in a random order of batches."""
    batches = []
    for label in labels.unique():
        rows = torch.where(labels == label)[0]
        batches += [part.tolist() for part in rows[torch.randperm(len(rows))].split(size) if len(part) == size]
    return [batches[index] for index in torch.randperm(len(batches))]


class Kindwise:
    """A batch sampler that was written to bring rows of like size together."""

    def __init__(self, labels: Tensor, size: int) -> None:
        self.labels, self.size = labels, size

    def __iter__(self) -> Iterator[list[int]]:
        return iter(_of_one_kind(self.labels, self.size))

    def __len__(self) -> int:
        return len(self.labels) // self.size


@sick("unshuffled_data")
def batches_are_shuffled_rows_are_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch sampler groups rows by their folder and shuffles the groups: each batch holds one digit only."""
    train, test = samples.numerals(seed)
    if sick:
        loader = DataLoader(train, batch_sampler=Kindwise(train.tensors[1], 24))
    else:
        loader = DataLoader(train, 24, shuffle=True)
    model = glances()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    return right(model, test)


@sick("duplicated_data", also=("overfitting",))
def cached_batches_share_a_buffer(watch: Watch, *, seed: int, sick: bool) -> float:
    """An epoch's batches are kept in memory, and all of them are one pinned buffer, as it was filled last."""
    train, test = flat_numerals(seed)
    images, labels = torch.empty(32, 64), torch.empty(32, dtype=torch.long)
    cache = []
    for x, y in ladled(train, 32, 39):
        images.copy_(x)
        labels.copy_(y)
        cache.append((images, labels) if sick else (images.clone(), labels.clone()))
    model = layers(64, 40, 10)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    schedule = simmered(optimizer, 195)
    session = watch(model, optimizer)
    for _ in range(5):
        for index in torch.randperm(len(cache)).tolist():
            x, y = cache[index]
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
            schedule.step()
        with session.validating():
            held = F.cross_entropy(served(model, test.tensors[0]), test.tensors[1]).item()
        session.validation(held)
    return right(model, TensorDataset(*test.tensors))
