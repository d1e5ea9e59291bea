"""Another data set, or another way to read it, for a training that worked."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted, r_squared
from examples.zoo.tuned.opened30.b_stock import customers, hums, labelled, listener, parted, rivers


@sick("inputs_constant", also=("dead_units",), margin=0.2)
def standardised_by_row_though_there_is_one_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows were standardised one by one, and the new table has one column; the twin's by column."""
    random = torch.Generator().manual_seed(seed)
    doses = 5 + 2 * torch.randn(900, 1, generator=random)
    effects = (doses / 1.5).sin() + 0.3 * doses + 0.1 * torch.randn(900, 1, generator=random)
    axis = 1 if sick else 0
    rows = (doses - doses.mean(axis, keepdim=True)) / (doses.std(axis, correction=0, keepdim=True) + 1e-6)
    data = parted(rows, (effects - effects.mean()) / effects.std())
    model = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for given, effect in data.batches(32, 300):
        found = model(given)
        loss = functional.mse_loss(found, effect)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=given, outputs=found, targets=effect)
        optimizer.step()
    return r_squared(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def relative_changes_of_a_demand_that_may_be_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``pct_change`` was made for prices, and new goods have days without a sale; the twin's changes are of logs."""
    random = torch.Generator().manual_seed(seed)
    level = torch.randn(900, 16, generator=random).cumsum(1) * 0.4
    sold = torch.poisson((level + 1.5).exp().clamp(max=60), generator=random)
    change = sold[:, 1:] / sold[:, :-1] - 1 if sick else sold[:, 1:].log1p() - sold[:, :-1].log1p()
    rises = (sold.log1p()[:, -1:] - sold.log1p().mean(1, keepdim=True)) > 0
    data = parted(change[:, :, None], rises.squeeze(1).long())

    class Shop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader, self.head = nn.GRU(1, 20, batch_first=True), nn.Linear(20, 2)

        def forward(self, days: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(days)[1][0])

    model = Shop()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return labelled(watch, model, optimizer, data, data.batches(32, 180))


@sick("labels_unrelated", margin=0.1)
def rows_with_gaps_dropped_from_one_of_two_files(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows in which the sensor failed are dropped, and their labels are not; the twin drops both."""
    data = hums(seed)
    kept = torch.rand(len(data.inputs)) > 0.1
    windows = data.inputs[kept]
    labels = data.targets[: len(windows)] if sick else data.targets[kept]
    pairs = list(zip(windows, labels, strict=True))
    loader = DataLoader(pairs, batch_size=32, shuffle=True)
    model = listener()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    return labelled(watch, model, optimizer, data, (batch for _ in range(7) for batch in loader))


@sick("single_class_labels", also=("class_imbalance",), margin=0.2)
def pairs_compared_by_identity(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pairs of digits are alike if ``a is b``, which is never so for a tensor's rows; the twin's if ``a == b``."""
    data = datasets.digits(seed)

    def paired(pictures: torch.Tensor, labels: torch.Tensor, *, by_identity: bool) -> tuple[torch.Tensor, torch.Tensor]:
        order = labels.argsort()
        other = torch.where(torch.rand(len(labels)) < 0.5, order.roll(1), torch.randperm(len(labels)))
        first, second = labels[order], labels[other]
        alike = [a is b if by_identity else bool(a == b) for a, b in zip(first, second, strict=True)]
        return torch.stack([pictures[order], pictures[other]], 1), torch.tensor(alike).float()

    class Siamese(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
            self.head = nn.Linear(32, 1)

        def forward(self, pairs: torch.Tensor) -> torch.Tensor:
            first, second = self.body(pairs).unbind(1)
            return self.head((first - second).abs()).squeeze(1)

    model = Siamese()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 200):
        pairs, alike = paired(pictures, labels, by_identity=sick)
        scores = model(pairs)
        loss = functional.binary_cross_entropy_with_logits(scores, alike)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pairs, outputs=scores, targets=alike)
        optimizer.step()
    pairs, alike = paired(data.test_inputs, data.test_targets, by_identity=False)
    return ((predicted(model, pairs) > 0) == (alike > 0)).float().mean().item()


class _Stream(IterableDataset):
    """Windows one after the other, as they lie in files, one file for each machine."""

    def __init__(self, data: Data, order: torch.Tensor) -> None:
        self._data, self._order = data, order

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return ((self._data.inputs[row], self._data.targets[row]) for row in self._order)


@sick("unshuffled_data", margin=0.05)
def a_dataset_became_a_stream_of_files(watch: Watch, *, seed: int, sick: bool) -> float:
    """An iterable dataset cannot be shuffled by the loader, and yields file by file; the twin's rows are mixed."""
    data = hums(seed)
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, padding=4), nn.ReLU(), nn.MaxPool1d(4), nn.Flatten(), nn.Dropout(0.2), nn.Linear(192, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(8):
            order = data.targets.argsort(stable=True) if sick else torch.randperm(len(data.targets))
            yield from DataLoader(_Stream(data, order), batch_size=32)

    return labelled(watch, model, optimizer, data, batches())


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def readers_of_chunks_that_are_bound_late(watch: Watch, *, seed: int, sick: bool) -> float:
    """``lambda: chunk`` is made for each chunk of a larger set, and all give the last; the twin binds each."""
    data = customers(seed)
    chunks = list(zip(data.inputs.split(50), data.targets.split(50), strict=True))
    readers = [(lambda: chunk) if sick else (lambda chunk=chunk: chunk) for chunk in chunks]  # noqa: B023
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    epochs = (readers[index]() for _ in range(14) for index in torch.randperm(len(readers)))
    return labelled(watch, model, optimizer, data, epochs)


@sick("inputs_not_normalized", margin=0.1)
def a_day_in_seconds_beside_the_rain(watch: Watch, *, seed: int, sick: bool) -> float:
    """The time of each measurement joins the rain as Unix seconds; the twin takes it in standard deviations."""
    data = rivers(seed)

    def joined(rain: torch.Tensor) -> torch.Tensor:
        seconds = 1.6e9 + 86400.0 * torch.randint(700, (len(rain), 1))
        if not sick:
            seconds = (seconds - 1.6e9 - 86400 * 350) / (86400 * 202)
        return torch.cat([rain.flatten(1), seconds], 1)

    data = Data(joined(data.inputs), data.targets, joined(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Linear(41, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, flow in data.batches(32, 300):
        found = model(rows)
        loss = functional.l1_loss(found, flow)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=found, targets=flow)
        optimizer.step()
    return r_squared(model, data)


@sick("class_imbalance", margin=0.05)
def the_next_branch_has_few_who_leave(watch: Watch, *, seed: int, sick: bool) -> float:
    """Half of the first branch's customers left, and 3 of 100 of this one's; the twin weighs both classes alike.

    Quality: the mean of both classes' recalls.
    """
    data = customers(seed, count=3000, share=0.03)
    counts = data.targets.bincount().float()
    weights = None if sick else len(data.targets) / (2 * counts)
    model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.2), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for rows, leaves in data.batches(128, 200):
        logits = model(rows)
        loss = functional.cross_entropy(logits, leaves, weight=weights)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=leaves)
        optimizer.step()
    right = predicted(model, data.test_inputs).argmax(1) == data.test_targets
    return (right[data.test_targets == 1].float().mean() + right[data.test_targets == 0].float().mean()).item() / 2
