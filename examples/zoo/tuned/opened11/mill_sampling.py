"""What a loader hands out: its order, its copies, its classes, and its numbers."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset, WeightedRandomSampler

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


def convnet(channels: int = 12, *, norm: bool = False) -> nn.Sequential:
    """Returns a small CNN for digits."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels) if norm else nn.Identity(), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * channels, 10),
    )  # fmt: skip


def test_accuracy(model: nn.Module, test: TensorDataset) -> float:
    """Returns the accuracy in eval mode."""
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class ByClass(Sampler[int]):
    """Yields a class after the other; meant for a figure, not for training."""

    def __init__(self, labels: torch.Tensor) -> None:
        self.labels = labels

    def __iter__(self) -> Iterator[int]:
        return iter(self.labels.argsort(stable=True).tolist())

    def __len__(self) -> int:
        return len(self.labels)


@sick("unshuffled_data", margin=0.1)
def a_sampler_meant_for_a_figure(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sampler that goes from class to class was left in the loader; gradients are clipped, which hides the jumps."""
    train, test = samples.numerals(seed)
    sampler = ByClass(train.tensors[1]) if sick else None
    loader = DataLoader(train, batch_size=32, sampler=sampler, shuffle=not sick)
    model = convnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, labels in loader:
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
    return test_accuracy(model, test)


class Cached(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Augmented digits behind a small cache."""

    def __init__(self, data: TensorDataset, keep: int) -> None:
        self.data, self.keep = data, keep
        self.cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        slot = index % self.keep
        if slot not in self.cache:
            self.cache[slot] = self.data[index]
        return self.cache[slot]


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def a_cache_with_too_few_slots(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cache of samples has 32 slots and never evicts: an index gets whatever came first to its slot."""
    train, test = samples.numerals(seed)
    dataset = Cached(train, 32 if sick else len(train))
    model = convnet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(dataset, batch_size=64, shuffle=True):
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
        with session.validating(), torch.no_grad():
            session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item())
    return test_accuracy(model, test)


def _rare(seed: int, share: float) -> tuple[TensorDataset, TensorDataset]:
    """Digits and whether they are an eight, of which only a share is kept to train on."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    kept = (labels != 8) | (torch.rand(len(labels), generator=torch.Generator().manual_seed(seed)) < share)
    test_images, test_labels = test.tensors
    return (
        TensorDataset(images[kept], (labels[kept] == 8).long()),
        TensorDataset(test_images, (test_labels == 8).long()),
    )


@sick("class_imbalance", margin=0.1)
def one_eight_among_forty_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """Few eights among other digits; the twin draws both kinds as often. Quality is the mean of both kinds' recall."""
    train, test = _rare(seed, 0.25)
    eights = train.tensors[1]
    weights = torch.where(eights == 1, 0.5 / eights.sum(), 0.5 / (1 - eights).sum())
    sampler = None if sick else WeightedRandomSampler(weights.tolist(), len(eights))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, is_eight in DataLoader(train, batch_size=48, sampler=sampler, shuffle=sick):
            scores = model(images)
            loss = functional.cross_entropy(scores, is_eight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=is_eight)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        found = model(test.tensors[0]).argmax(1) == test.tensors[1]
    is_eight = test.tensors[1] == 1
    return (found[is_eight].float().mean() + found[~is_eight].float().mean()).item() / 2


@sick("inputs_constant", margin=0.3)
def divided_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are bytes, and are divided by 17 as whole numbers: each picture becomes black."""
    train, test = samples.numerals(seed)
    low, high = train.tensors[0].min(), train.tensors[0].max()

    def scaled(images: torch.Tensor) -> torch.Tensor:
        pixels = ((images - low) / (high - low) * 16).round().to(torch.uint8)
        return (pixels // 17).float() if sick else pixels.float() / 16 - 0.3

    model = convnet(norm=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        model.train()
        for pixels, labels in DataLoader(train, batch_size=48, shuffle=True):
            images = scaled(pixels)
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
    return test_accuracy(model, TensorDataset(scaled(test.tensors[0]), test.tensors[1]))
