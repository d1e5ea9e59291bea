"""Tables, pixels and letters on their way into a model, and the targets that come with them."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit
from examples.zoo.tuned.opened45.c_common import Reader, even_accuracy, joined, of_columns


@sick("inputs_not_normalized", margin=0.1)
def areas_next_to_fractions(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas of thousands stand beside fractions in the inputs of a regression; the twin standardises the columns."""
    pair = samples.tumours(seed)
    data = joined(samples.standardised(pair, 1) if sick else samples.standardised(pair, 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return of_columns(model, data)


@sick("inputs_constant", margin=0.3)
def clamped_between_one_and_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are clamped with both bounds in the wrong order, so that all become 0; the twin has them in order."""
    data = datasets.digits(seed, images=True)
    low, high = (1.0, 0.0) if sick else (0.0, 1.0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten())
            self.head = nn.Linear(256, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(pixels))

    cleaned = (part.clamp(low, high) for part in (data.inputs, data.test_inputs))
    data = Data(next(cleaned), data.targets, next(cleaned), data.test_targets)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.2)
def logarithms_of_flat_contours(watch: Watch, *, seed: int, sick: bool) -> float:
    """Some tumours have no concavity at all, whose logarithm is -inf; the twin adds a small number before it."""
    drawn = datasets.breast_cancer(seed, raw=True)
    added = 0.0 if sick else 1e-3
    rows, test_rows = (drawn.inputs + added).log(), (drawn.test_inputs + added).log()
    finite = rows.masked_fill(~rows.isfinite(), 0.0)
    std, mean = torch.std_mean(finite, 0)
    data = Data((rows - mean) / std, drawn.targets[:, None].float(), (test_rows - mean) / std, drawn.test_targets)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits)  # fmt: skip
    return binary_accuracy(model, data)


class Rating(nn.Module):
    """A rating on a scale from 0 to a maximum."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self.body, self.most = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1)), most

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.most * torch.sigmoid(self.body(rows))


@sick("target_out_of_range", margin=0.1)
def five_stars_for_a_scale_of_twenty(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recommender's head ends at 5 stars, but these ratings go up to 17; the twin's scale goes up to 20."""
    drawn = joined(samples.standardised(samples.proline(seed), 0))
    data = Data(drawn.inputs, drawn.targets / 100, drawn.test_inputs, drawn.test_targets / 100)
    model = Rating(5.0 if sick else 20.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return of_columns(model, data)


@sick("labels_unrelated", margin=0.3)
def repeated_one_way_and_tiled_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four noisy copies of each image lie together, but their labels are tiled; the twin repeats both alike."""
    drawn = datasets.digits(seed)
    copies = drawn.inputs.repeat_interleave(4, 0)
    labels = drawn.targets.repeat(4) if sick else drawn.targets.repeat_interleave(4)
    data = Data(copies + 0.05 * torch.randn_like(copies), labels, drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def more_than_140_deviations(watch: Watch, *, seed: int, sick: bool) -> float:
    """Standardised progressions are compared with 140 units, which none exceeds; the twin compares those in units."""
    drawn = datasets.diabetes(seed, raw_targets=True)
    std, mean = torch.std_mean(drawn.targets)
    true = (drawn.test_targets > 140).float()
    values = (drawn.targets - mean) / std if sick else drawn.targets
    data = Data(drawn.inputs, (values > 140).float(), drawn.test_inputs, true)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=100, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits)  # fmt: skip
    return binary_accuracy(model, Data(data.inputs, data.targets, data.test_inputs, true[:, 0]))


@sick("class_imbalance", margin=0.1)
def three_per_cent_of_eights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of all digits three per cent are eights, and they're hardly ever found; the twin weighs them by their rarity."""
    drawn = datasets.digits(seed)
    eights = (drawn.targets == 8).nonzero()[:, 0]
    kept = torch.cat([(drawn.targets != 8).nonzero()[:, 0], eights[:40]])
    labels, test_labels = ((values == 8).float()[:, None] for values in (drawn.targets, drawn.test_targets))
    data = Data(drawn.inputs[kept], labels[kept], drawn.test_inputs, test_labels)
    weight = None if sick else torch.tensor([(len(kept) - 40) / 40])
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=64,
        loss_function=nn.BCEWithLogitsLoss(pos_weight=weight))  # fmt: skip
    return even_accuracy(model, data)


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Reads names as they lie in their files, or in a new order each time."""

    def __init__(self, data: Data, mixed: bool) -> None:
        order = data.targets.argsort(stable=True)
        self.rows, self.labels, self.mixed = data.inputs[order], data.targets[order], mixed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(self.rows)) if self.mixed else torch.arange(len(self.rows))
        for index in order.tolist():
            yield self.rows[index], self.labels[index]


@sick("unshuffled_data", margin=0.1)
def a_stream_without_a_buffer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A stream gives all names of one script after those of another; the twin's stream mixes them."""
    data = joined(samples.names(seed))
    loader = DataLoader(Stream(data, not sick), batch_size=12)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(4):
        for codes, labels in loader:
            optimizer.zero_grad()
            outputs = model(codes)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


class Shards(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples in shards of 32 that are opened as they are needed."""

    def __init__(self, data: Data, stuck: bool) -> None:
        self.shards = list(zip(data.inputs.split(32), data.targets.split(32), strict=True))[:-1]
        self.stuck = stuck

    def __len__(self) -> int:
        return 32 * len(self.shards)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows, labels = self.shards[0 if self.stuck else index // 32]
        return rows[index % 32], labels[index % 32]


@sick("duplicated_data", margin=0.1)
def always_the_first_shard(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset never opens another shard than the first, and repeats its 32 samples; the twin opens the right one."""
    data = datasets.digits(seed)
    loader = DataLoader(Shards(data, sick), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows, labels in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


class Swapped(Reader):
    """Reads names time by time, as a recurrence without ``batch_first`` wants it."""

    def __init__(self, reshapes: bool) -> None:
        super().__init__(32)
        self.gru, self.reshapes = nn.GRU(16, 32), reshapes

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        letters = self.letters(codes)
        count, length, size = letters.shape
        letters = letters.reshape(length, count, size) if self.reshapes else letters.transpose(0, 1)
        return self.head(self.gru(letters)[0].mean(0))


@sick("batch_mixing", margin=0.1)
def names_dealt_out_by_a_reshape(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names (N, T) are reshaped to (T, N), which deals their letters out to other names; the twin transposes them."""
    data = joined(samples.names(seed))
    model = Swapped(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)
