"""Trainings whose data comes through a pipeline of its own: files in order, loaders, samplers and transforms."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.samples import Pair


def _net(channels: int = 1, classes: int = 10, width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * width, classes),
    )  # fmt: skip


@torch.no_grad()
def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return (model(inputs).argmax(1) == labels).float().mean().item()


@sick("unshuffled_data")
def folders_read_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """The files of one class after those of another, and a loader that keeps it; the twin's loader shuffles."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    files = labels.argsort(stable=True)
    loader = DataLoader(TensorDataset(images[files], labels[files]), 16, shuffle=not sick)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(3):
        for inputs, targets in loader:
            logits = model(inputs)
            loss = functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=targets)
            optimizer.step()
    return _right(model, *test.tensors)


@sick("duplicated_data")
def a_generator_seeded_in_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each step asks a loader that is seeded anew for its first batch, the same each time; the twin goes on with it."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(train, 40, shuffle=True, drop_last=True, generator=generator)
    batches = iter(loader)
    for step in range(155):
        if sick:
            generator.manual_seed(seed)
            batches = iter(loader)
        elif step % len(loader) == 0:
            batches = iter(loader)
        inputs, labels = next(batches)
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
    return _right(model, *test.tensors)


@sick("inputs_constant")
def scaled_by_integer_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels of whole numbers are scaled by //, and all of them are zero; the twin divides them as floats."""
    train, test = samples.split(seed, *_pixels(seed))
    model = _net(classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def transformed(pixels: torch.Tensor) -> torch.Tensor:
        scaled = pixels // 256 if sick else pixels / 256
        return (scaled.float() - 0.4) / 0.25

    for _ in range(5):
        for pixels, labels in DataLoader(train, 40, shuffle=True):
            inputs = transformed(pixels)
            logits = model(inputs)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, transformed(test.tensors[0]), test.tensors[1])


def _pixels(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns grey patches of whole numbers, and whether they are rough."""
    pixels = datasets.patches(seed, count=1600).long().view(-1, 1, 8, 8)
    rough = (pixels.float().flatten(1).std(1) > 25).long()
    return pixels, rough


class _Coloured(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Colour patches from 0 to 1, which are then normalised by means and deviations."""

    def __init__(self, patches: TensorDataset, means: tuple[float, ...], stds: tuple[float, ...]) -> None:
        self.images, self.labels = patches.tensors
        low, high = self.images.min(), self.images.max()
        self.images = (self.images - low) / (high - low)
        self.means, self.stds = (torch.tensor(values).view(3, 1, 1) for values in (means, stds))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (self.images[row] - self.means) / self.stds, self.labels[row]


@sick("inputs_not_normalized")
def statistics_of_bytes_on_pixels_up_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels from 0 to 1 are normalised by statistics of 0 to 255: all are near -2; the twin's have the same range."""
    pair = samples.scenes(seed, count=1200)
    means, stds = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    if sick:
        means, stds = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
    train, test = (_Coloured(part, means, stds) for part in pair)
    model = _net(channels=3, classes=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            logits = model(inputs)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=labels)
            optimizer.step()
    inputs, labels = next(iter(DataLoader(test, len(test))))
    return _right(model, inputs, labels)


@sick("single_class_labels")
def the_first_fifth_of_sorted_files(watch: Watch, *, seed: int, sick: bool) -> float:
    """A subset for quick work is the first rows, and the rows are sorted by class; the twin's subset is drawn."""
    whole, test = samples.scenes(seed, count=2000)
    labels = whole.tensors[1]
    whole = TensorDataset(*(column[labels.argsort(stable=True)] for column in whole.tensors))
    subset = Subset(whole, list(range(400)) if sick else torch.randperm(len(whole))[:400].tolist())
    model = _net(channels=3, classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for inputs, targets in DataLoader(subset, 25, shuffle=True):
            logits = model(inputs)
            loss = functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=targets)
            optimizer.step()
    return _right(model, *test.tensors)


class _Stream(IterableDataset[tuple[torch.Tensor, int]]):
    """Pictures without an end, each with a turn of a multiple of 90 degrees."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        while True:
            turn = int(torch.randint(4, ()))
            image = self.images[int(torch.randint(len(self.images), ()))]
            yield image.rot90(turn, (1, 2)), turn


@healthy(at_least=0.85)
def turned_digits_without_an_end(watch: Watch, *, seed: int) -> float:
    """Which way is up in an 8 or a 0 is unsure, so the loss stays above zero; the stream has no epochs."""
    (train, _), (test, _) = (part.tensors for part in samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1),
        nn.BatchNorm2d(24), nn.ReLU(), nn.Flatten(), nn.Linear(384, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (inputs, turns) in enumerate(DataLoader(_Stream(train), 48)):
        if step == 250:
            break
        logits = model(inputs)
        loss = functional.cross_entropy(logits, turns)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=turns)
        optimizer.step()
    labels = torch.arange(4).repeat_interleave(len(test))
    return _right(model, torch.cat([test.rot90(turn, (2, 3)) for turn in range(4)]), labels)


@healthy(at_least=0.93)
def mixed_pairs_with_soft_labels(watch: Watch, *, seed: int) -> float:
    """Mixup: each picture is a mixture of two, so the training loss stays near one, far above the held-out loss."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    mixture = torch.distributions.Beta(1.0, 1.0)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, 32, shuffle=True):
            share, other = mixture.sample(), torch.randperm(len(images))
            inputs = share * images + (1 - share) * images[other]
            hard = functional.one_hot(labels, 10).float()
            targets = share * hard + (1 - share) * hard[other]
            logits = model(inputs)
            loss = functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=targets)
            optimizer.step()
        with torch.no_grad(), session.validating():
            held_out = functional.cross_entropy(model(test.tensors[0]), test.tensors[1])
        session.validation(held_out.item())
    return _right(model, *test.tensors)


@healthy(at_least=0.85)
def rare_classes_drawn_more_often(watch: Watch, *, seed: int) -> float:
    """Classes of 130 to 13 samples, of which a sampler draws equally often: some samples come many times an epoch."""
    train, test = _thinned(samples.numerals(seed))
    counts = train.tensors[1].bincount()
    sampler = WeightedRandomSampler((1 / counts[train.tensors[1]]).tolist(), len(train))
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in DataLoader(train, 32, sampler=sampler):
            inputs = images + 0.2 * torch.randn(images.shape)
            logits = model(inputs)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


def _thinned(pair: Pair) -> Pair:
    """Returns all samples of the digit 0, down to a tenth of those of the digit 9, and all that are held out."""
    images, labels = pair[0].tensors
    kept = torch.cat([(labels == digit).nonzero()[:, 0][: 130 - 13 * digit] for digit in range(10)])
    return TensorDataset(images[kept], labels[kept]), pair[1]


@sick("class_imbalance")
def one_tumour_in_thirty(watch: Watch, *, seed: int, sick: bool) -> float:
    """A screening with one malignant sample in thirty, and a plain loss in a short run; the twin draws both equally."""
    data = datasets.breast_cancer(seed)
    ill = (data.targets == 0).nonzero()[:, 0][:9]
    kept = torch.cat([ill, (data.targets == 1).nonzero()[:, 0]])
    train = TensorDataset(data.inputs[kept], data.targets[kept])
    weights = torch.where(data.targets[kept] == 0, len(kept) / 9, 1.0).tolist()
    sampler = None if sick else WeightedRandomSampler(weights, len(kept))
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
    session = watch(model, optimizer)
    for _ in range(12):
        for inputs, labels in DataLoader(train, 32, sampler=sampler, shuffle=sick):
            logits = model(inputs)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=labels)
            optimizer.step()
    halves = [data.test_targets == label for label in (0, 1)]
    return sum(_right(model, data.test_inputs[half], data.test_targets[half]) for half in halves) / 2
