"""What a batch holds: rows in order, the same rows, and rows that see each other."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted


def _train(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, epochs: int) -> None:
    session = watch(model, optimizer)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            logits = model(x)
            loss = criterion(logits, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=logits, targets=y)
            optimizer.step()


@sick("unshuffled_data", margin=0.05)
def one_folder_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are read folder by folder, one for each digit, and the loader does not shuffle."""
    data = datasets.digits(seed, images=True)
    order = data.targets.argsort(stable=True)
    rows = TensorDataset(data.inputs[order], data.targets[order])
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    _train(watch, model, optimizer, DataLoader(rows, batch_size=32, shuffle=not sick), 5)
    return accuracy(model, data)


@sick("unshuffled_data", margin=0.05)
def two_sources_joined_one_behind_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ConcatDataset`` of the patches of two photographs, and ``shuffle=True`` is missing."""
    train, test = samples.scenes(seed, count=1200)
    images, labels = train.tensors
    parts = [TensorDataset(images[labels == photograph], labels[labels == photograph]) for photograph in (0, 1)]
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 2),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    _train(watch, model, optimizer, DataLoader(ConcatDataset(parts), batch_size=32, shuffle=not sick), 7)
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Wrapped(Dataset):
    """Digits whose index is taken modulo something."""

    def __init__(self, pixels: torch.Tensor, labels: torch.Tensor, modulo: int) -> None:
        self.pixels, self.labels, self.modulo = pixels, labels, modulo

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        row = index % self.modulo
        return self.pixels[row], self.labels[row]


@sick("duplicated_data", also=("overfitting",), margin=0.03)
def index_modulo_the_batch_size(watch: Watch, *, seed: int, sick: bool) -> float:
    """``__getitem__`` takes its index modulo the batch size: 64 digits come again and again."""
    data = datasets.digits(seed)
    rows = Wrapped(data.inputs, data.targets, 64 if sick else len(data.inputs))
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    _train(watch, model, optimizer, DataLoader(rows, batch_size=64, shuffle=True), 8)
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def seed_of_the_sampling_set_for_every_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``default_rng(0)`` is made in the function that draws a batch: it draws the same one each time."""
    pixels, labels = load_digits(return_X_y=True)
    train, test = samples.split(seed, torch.tensor(pixels / 16).float(), torch.tensor(labels))
    inputs, targets = train.tensors
    once = np.random.default_rng(seed)

    def batch(size: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
        random = np.random.default_rng(0) if sick else once
        rows = torch.from_numpy(random.choice(len(inputs), size, replace=False))
        return inputs[rows], targets[rows]

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(200):
        x, y = batch()
        logits = model(x)
        loss = functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits, targets=y)
        optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Lstm(nn.Module):
    """Reads a digit's eight rows; the default of ``batch_first`` is False."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 32, batch_first=batch_first)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(images)
        return self.head(states[:, -1])


@sick("batch_mixing", margin=0.03)
def lstm_that_takes_the_batch_for_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first=True`` is missing: the recurrence runs from sample to sample, and each sees its last row alone."""
    train, test = samples.numerals(seed)
    train = TensorDataset(train.tensors[0].squeeze(1), train.tensors[1])
    model = Lstm(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    _train(watch, model, optimizer, DataLoader(train, batch_size=32, shuffle=True), 6)
    return samples.accuracy(predicted(model, test.tensors[0].squeeze(1)), test.tensors[1])


class Pooled(nn.Module):
    """Weighs the letters of a name by attention."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.conv = nn.Conv1d(24, 32, 3, padding=1)
        self.score = nn.Linear(32, 1)
        self.head = nn.Linear(32, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        letters = functional.relu(self.conv(self.embed(codes).transpose(1, 2))).transpose(1, 2)
        weights = self.score(letters).softmax(dim=self.dim)
        return self.head((weights * letters).sum(1))


@sick("batch_mixing", margin=0.03)
def attention_weights_over_the_wrong_dimension(watch: Watch, *, seed: int, sick: bool) -> float:
    """``softmax(dim=0)`` shares the attention among the names of a batch, not among a name's letters."""
    train, test = samples.names(seed, length=16)
    model = Pooled(0 if sick else 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    _train(watch, model, optimizer, DataLoader(train, batch_size=32, shuffle=True), 10)
    outputs = torch.cat([predicted(model, codes) for codes in test.tensors[0].split(1)])
    return samples.accuracy(outputs, test.tensors[1])
