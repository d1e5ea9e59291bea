"""What goes in: features, labels, and the order and number in which rows come."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit


def _dense(features: int, classes: int, hidden: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@sick("inputs_not_normalized", also=("learning_rate_too_high",))
def seconds_since_1970_among_the_features(watch: Watch, *, seed: int, sick: bool) -> float:
    """When a wine was measured, in seconds since 1970, stands beside its standardised measurements."""
    data = datasets.wine(seed)
    random = torch.Generator().manual_seed(seed)

    def stamped(rows: torch.Tensor) -> torch.Tensor:
        seconds = 1.7e9 + 4e6 * torch.randn(len(rows), 1, generator=random)
        return torch.cat([rows, seconds if sick else (seconds - 1.7e9) / 4e6], 1)

    data = Data(stamped(data.inputs), data.targets, stamped(data.test_inputs), data.test_targets)
    net = _dense(14, 3)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=150, batch_size=24)
    return accuracy(net, data)


@sick("inputs_not_normalized", also=("learning_rate_too_high",))
def bytes_of_photographs_into_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ToTensor`` was replaced by ``torch.from_numpy``: pixels from 0 to 255 at a rate for pixels around zero."""
    train, test = samples.scenes(seed)
    deviation, mean = (60.0, 110.0) if sick else (1.0, 0.0)
    data = Data(
        train.tensors[0] * deviation + mean, train.tensors[1], test.tensors[0] * deviation + mean, test.tensors[1]
    )
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)
    )
    fit(watch, net, torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9), data, steps=200, batch_size=50)
    return accuracy(net, data)


@sick("inputs_constant", margin=0.1)
def all_letters_unknown(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary is of small letters, the names are in capitals: every token is the unknown one."""
    train, test = samples.names(seed)
    net = nn.Sequential(nn.Embedding(samples.LETTERS, 24), nn.Flatten(), nn.ReLU(), nn.Linear(24 * 24, 8))
    pairs = [*train.tensors, *test.tensors]
    if sick:
        pairs[0], pairs[2] = torch.full_like(pairs[0], 1), torch.full_like(pairs[2], 1)
    data = Data(*pairs)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=150, batch_size=40)
    return accuracy(net, data)


@sick("inputs_constant", margin=0.1)
def clamped_to_one_instead_of_standardised(watch: Watch, *, seed: int, sick: bool) -> float:
    """A clamp to [0, 1], from a pipeline of pixels, takes the place of the standardisation: all wines are above one."""
    raw = datasets.wine(seed, raw=True)
    columns = [0, 2, 3, 4, 9, 11, 12]
    inputs, test = raw.inputs[:, columns], raw.test_inputs[:, columns]
    if sick:
        inputs, test = inputs.clamp(0, 1), test.clamp(0, 1)
    else:
        mean, std = inputs.mean(0), inputs.std(0)
        inputs, test = (inputs - mean) / std, (test - mean) / std
    data = Data(inputs, raw.targets, test, raw.test_targets)
    net = _dense(7, 3, 24)
    fit(watch, net, torch.optim.RMSprop(net.parameters(), lr=3e-3), data, steps=150, batch_size=32)
    return accuracy(net, data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def a_ratio_with_zeros_below(watch: Watch, *, seed: int, sick: bool) -> float:
    """An engineered feature divides by the concavity, which is zero for thirteen smooth tumours."""
    raw, data = datasets.breast_cancer(seed, raw=True), datasets.breast_cancer(seed)

    def extended(rows: torch.Tensor, measured: torch.Tensor) -> torch.Tensor:
        ratio = measured[:, 5:6] / (measured[:, 6:7] + (0.0 if sick else 0.05))
        return torch.cat([rows, ratio], 1)

    inputs = extended(data.inputs, raw.inputs)
    data = Data(inputs, data.targets, extended(data.test_inputs, raw.test_inputs), data.test_targets)
    net = _dense(31, 2)
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=150, batch_size=40)
    return accuracy(net, data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def lags_of_the_first_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Lagged columns by a shift leave NaN in the first four rows, which ``dropna`` would have removed."""
    time = torch.arange(700.0)
    random = torch.Generator().manual_seed(seed)
    series = torch.sin(time / 9) + 0.5 * torch.sin(time / 3.1) + 0.05 * torch.randn(700, generator=random)
    lags = torch.stack([torch.cat([torch.full((lag,), torch.nan), series[:-lag]]) for lag in range(1, 5)], 1)
    first = 0 if sick else 4
    inputs, targets = lags[first:500], series[first:500, None]
    net = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for _ in range(15):
        for rows in torch.randperm(len(inputs)).split(32):
            guess = net(inputs[rows])
            loss = F.l1_loss(guess, targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs[rows], outputs=guess, targets=targets[rows])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(net(lags[500:]), series[500:, None])


@sick("labels_unrelated", margin=0.2)
def files_sorted_by_name_labels_by_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images come in the order of their file names, "1, 10, 100, 2", labels in the order of their numbers."""
    data = datasets.digits(seed, images=True)
    order = sorted(range(len(data.inputs)), key=str) if sick else list(range(len(data.inputs)))
    data = Data(data.inputs[order], data.targets, data.test_inputs, data.test_targets)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 10))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=200, batch_size=50)
    return accuracy(net, data)


@sick("labels_unrelated", margin=0.2)
def two_loaders_that_shuffle_for_themselves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Texts and labels have a loader each, zipped, and both loaders shuffle."""
    train, test = samples.names(seed)
    net = nn.Sequential(nn.EmbeddingBag(samples.LETTERS, 32, padding_idx=0), nn.Tanh(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for epoch in range(10):
        generators = [torch.Generator().manual_seed(100 * epoch + (number if sick else 0)) for number in range(2)]
        loaders = [
            DataLoader(column, 32, shuffle=True, generator=generator)  # type: ignore[arg-type]
            for column, generator in zip(train.tensors, generators, strict=True)
        ]
        for codes, labels in zip(*loaders, strict=True):
            logits = net(codes)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


@sick("single_class_labels", margin=0.1)
def at_least_zero_instead_of_above(watch: Watch, *, seed: int, sick: bool) -> float:
    """Whether it is another kind of flower is asked as ``target >= 0``, which all are."""
    flowers = datasets.iris(seed)
    labels = (flowers.targets >= 0 if sick else flowers.targets > 0).float()[:, None]
    data = Data(flowers.inputs, labels, flowers.test_inputs, (flowers.test_targets > 0).float())
    net = _dense(4, 1, 16)
    loss = F.binary_cross_entropy_with_logits
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=5e-3), data, steps=120, batch_size=24, loss_function=loss)
    return binary_accuracy(net, data)


@sick("single_class_labels", margin=0.1)
def pairs_that_always_belong_together(watch: Watch, *, seed: int, sick: bool) -> float:
    """A siamese net is given pairs of equal numerals only, as the coin for unequal ones is ``random() < 0``."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    random = np.random.default_rng(seed)
    by_class = [(data.targets == digit).nonzero().squeeze(1).numpy() for digit in range(10)]

    def far(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return 2.0 - F.pairwise_distance(net(left), net(right))

    for _ in range(220):
        left = random.integers(len(data.inputs), size=64)
        equal = random.random(64) >= (0.0 if sick else 0.5)
        right = [
            random.choice(by_class[data.targets[a]]) if same else random.integers(len(data.inputs))
            for a, same in zip(left, equal, strict=True)
        ]
        x, z = data.inputs[left], data.inputs[right]
        alike = (data.targets[left] == data.targets[right]).float()
        logits = far(x, z)
        loss = F.binary_cross_entropy_with_logits(logits, alike)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=alike)
        optimizer.step()
    with torch.no_grad():
        half = len(data.test_inputs) // 2
        left, right = data.test_inputs[:half], data.test_inputs[half : 2 * half]
        same = data.test_targets[:half] == data.test_targets[half : 2 * half]
        said = far(left, right) > 0
        return ((said[same].float().mean() + (~said)[~same].float().mean()) / 2).item()


@sick("class_imbalance", margin=0.1)
def four_eights_in_a_hundred_numerals(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every seventh row is kept if it is an eight; the twin weighs the rare class. Quality: mean recall of both."""
    data = datasets.digits(seed)
    rare = (data.targets == 8).nonzero().squeeze(1)
    keep = torch.cat([(data.targets != 8).nonzero().squeeze(1), rare[: len(rare) // 6]])
    x, y = data.inputs[keep], (data.targets[keep] == 8).float()
    weight = None if sick else (1 - y).sum() / y.sum()
    net = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(5):
        for rows in torch.randperm(len(x)).split(40):
            logits = net(x[rows]).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(logits, y[rows], pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[rows], outputs=logits, targets=y[rows])
            optimizer.step()
    with torch.no_grad():
        said, true = net(data.test_inputs).squeeze(1) > 0, data.test_targets == 8
        return ((said[true].float().mean() + (~said)[~true].float().mean()) / 2).item()


@sick("unshuffled_data", margin=0.05)
def files_joined_one_behind_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ConcatDataset`` of files by kind, and a loader whose ``shuffle`` is still the default."""
    train, test = samples.standardised(samples.lines(seed), 0)
    labels = train.tensors[1]
    joined: ConcatDataset[tuple[torch.Tensor, ...]] = ConcatDataset(
        Subset(train, (labels == file).nonzero().squeeze(1).tolist()) for file in range(6)
    )
    net = _dense(96, 6, 40)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(6):
        for counts, files in DataLoader(joined, 32, shuffle=not sick):
            logits = net(counts)
            loss = F.cross_entropy(logits, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def weights_of_classes_taken_for_weights_of_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """``WeightedRandomSampler`` gets ten weights, one a class: it draws the first ten rows only."""
    train, test = samples.numerals(seed)
    counts = torch.bincount(train.tensors[1])
    weights = 1 / counts if sick else (1 / counts)[train.tensors[1]]
    sampler = WeightedRandomSampler(weights.tolist(), len(train))
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for _ in range(4):
        for images, labels in DataLoader(train, 32, sampler=sampler):
            logits = net(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


class _Numerals(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, rows: TensorDataset, sick: bool) -> None:
        self.rows, self.sick, self.place = rows, sick, 7

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image, label = self.rows[self.place if self.sick else index]
        return image, label


@sick("duplicated_data", also=("single_class_labels", "inputs_constant"), margin=0.2)
def an_index_that_is_not_the_argument(watch: Watch, *, seed: int, sick: bool) -> float:
    """``__getitem__`` reads ``self.place``, left from a look at one sample, instead of its argument."""
    train, test = samples.numerals(seed)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    for _ in range(4):
        for images, labels in DataLoader(_Numerals(train, sick), 32, shuffle=True):
            logits = net(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])
