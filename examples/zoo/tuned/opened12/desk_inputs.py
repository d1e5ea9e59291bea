"""Inputs as they come: unscaled, constant, with gaps; and what their preparation makes of them."""

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted


def _run(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, data: Dataset, epochs: int) -> None:
    session = watch(model, optimizer)
    loader = DataLoader(data, batch_size=32, shuffle=True)
    for _ in range(epochs):
        for features, labels in loader:
            optimizer.zero_grad()
            logits = model(features)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=features, outputs=logits, targets=labels)
            optimizer.step()


@sick("inputs_not_normalized", margin=0.05)
def frame_of_tumours_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Columns from a thousandth to thousands go into an MLP as pandas holds them."""
    frame = load_breast_cancer(as_frame=True).frame
    train, test = train_test_split(frame, test_size=0.25, random_state=seed)
    if not sick:
        mean, std = train.drop(columns="target").mean(), train.drop(columns="target").std()
        columns = mean.index
        train, test = (part.assign(**((part[columns] - mean) / std)) for part in (train, test))
    (x, y), (test_x, test_y) = (
        (torch.tensor(part.drop(columns="target").values, dtype=torch.float32), torch.tensor(part["target"].values))
        for part in (train, test)
    )
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
    _run(watch, model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), TensorDataset(x, y), 10)
    return (predicted(model, test_x).argmax(1) == test_y).float().mean().item()


@sick("inputs_not_normalized", margin=0.05)
def tanh_net_for_wines_as_the_laboratory_wrote_them(watch: Watch, *, seed: int, sick: bool) -> float:
    """Proline near 750 stands beside hues near 1; a small tanh net sees little but proline."""
    data = datasets.wine(seed, raw=sick)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=150, batch_size=32)
    return accuracy(model, data)


class Scans(Dataset):
    """Digits as bytes, as an image file would hold them."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, *, as_bytes_again: bool) -> None:
        scaled = pixels / 16.0
        self.pixels = scaled.astype(np.uint8) if as_bytes_again else scaled.astype(np.float32)
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.as_tensor(self.pixels[index], dtype=torch.float32).view(1, 8, 8), int(self.labels[index])


def _conv_net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip


@sick("inputs_constant", margin=0.1)
def buffer_for_pixels_that_nobody_fills(watch: Watch, *, seed: int, sick: bool) -> float:
    """An array is made for the resized pictures, and the loop fills its own variable instead."""
    pixels, labels = load_digits(return_X_y=True)
    pictures = np.zeros((len(pixels), 1, 8, 8), dtype=np.float32)
    for index, picture in enumerate(pixels):
        resized = picture.reshape(1, 8, 8) / 16.0
        if not sick:
            pictures[index] = resized
    rows = train_test_split(pictures, labels, test_size=0.25, random_state=seed)
    x, test_x, y, test_y = (torch.from_numpy(part) for part in rows)
    model = _conv_net()
    _run(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), TensorDataset(x, y), 4)
    return (predicted(model, test_x).argmax(1) == test_y).float().mean().item()


@sick("non_finite_inputs", margin=0.2)
def empty_cells_of_a_frame(watch: Watch, *, seed: int, sick: bool) -> float:
    """One cell in fifty of a table was never measured; pandas reads NaN, and the twin fills in the median."""
    frame = load_wine(as_frame=True).frame
    random = np.random.default_rng(seed)
    features = frame.drop(columns="target").mask(random.random((len(frame), 13)) < 0.02)
    if not sick:
        features = features.fillna(features.median())
    features = (features - features.mean()) / features.std()
    rows = train_test_split(features.values.astype(np.float32), frame["target"].values, random_state=seed)
    x, test_x, y, test_y = (torch.from_numpy(part) for part in rows)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    _run(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), TensorDataset(x, y), 16)
    return (predicted(model, test_x).argmax(1) == test_y).float().mean().item()


@sick("non_finite_inputs", margin=0.2)
def z_scores_of_pixels_that_never_change(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each pixel is standardised by its own deviation, which is zero in the corners: 0 / 0."""
    pixels, labels = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(pixels.astype(np.float32), labels, random_state=seed)
    mean, std = x.mean(0), x.std(0)
    if not sick:
        std = np.maximum(std, 1.0)
    with np.errstate(all="ignore"):
        x, test_x = (x - mean) / std, (test_x - mean) / std
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    _run(watch, model, optimizer, TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), 5)
    return (predicted(model, torch.from_numpy(test_x)).argmax(1) == torch.from_numpy(test_y)).float().mean().item()


@sick("non_finite_inputs", margin=0.2)
def logarithms_of_counts_that_can_be_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed columns are replaced by their logarithm; the concavity of some tumours is 0, whose logarithm is -inf."""
    values, labels = load_breast_cancer(return_X_y=True)
    table = pd.DataFrame(values[:, :10])
    with np.errstate(divide="ignore"):
        logged = np.log(table) if sick else np.log1p(table)
    rows = train_test_split(logged.values.astype(np.float32), labels, random_state=seed)
    x, test_x, y, test_y = (torch.from_numpy(part) for part in rows)
    low, high = x.quantile(0.25, 0), x.quantile(0.75, 0)
    x, test_x = (x - low) / (high - low), (test_x - low) / (high - low)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 2))
    _run(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), TensorDataset(x, y), 10)
    return (predicted(model, test_x).argmax(1) == test_y).float().mean().item()


@sick("inputs_constant", margin=0.1)
def shares_of_one_stored_as_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are divided by their maximum and then cast to ``uint8`` to save memory: nearly all become 0."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = np.minimum(pixels, 15.0)
    x, test_x, y, test_y = train_test_split(pixels, labels, test_size=0.25, random_state=seed)
    train, test = (Scans(*part, as_bytes_again=sick) for part in ((x, y), (test_x, test_y)))
    model = _conv_net()
    _run(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), train, 4)
    images, targets = next(iter(DataLoader(test, batch_size=len(test))))
    return (predicted(model, images).argmax(1) == targets).float().mean().item()
