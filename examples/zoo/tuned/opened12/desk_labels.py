"""Labels and targets: of other rows, of one class, rare, and out of the output's reach."""

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import fit, predicted, r_squared


def _recall_of_both(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean of the recalls of class 0 and 1."""
    guessed = logits.argmax(1)
    return (((guessed == 1) & (labels == 1)).sum() / (labels == 1).sum()).item() / 2 + (
        ((guessed == 0) & (labels == 0)).sum() / (labels == 0).sum()
    ).item() / 2


@sick("labels_unrelated", margin=0.2)
def rows_shuffled_and_labels_left_in_place(watch: Watch, *, seed: int, sick: bool) -> float:
    """``np.random.shuffle(x)`` alone: the labels stay where they were."""
    x, y = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split((x / 16).astype(np.float32), y, test_size=0.25, random_state=seed)
    random = np.random.default_rng(seed)
    if sick:
        random.shuffle(x)
    else:
        order = random.permutation(len(x))
        x, y = x[order], y[order]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pixels, labels in DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=64, shuffle=True):
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, torch.tensor(test_x)), torch.tensor(test_y))


@sick("labels_unrelated", margin=0.2)
def files_listed_by_name_and_labels_by_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """``sorted(glob(...))`` puts 10.png before 2.png, while the table of labels counts upwards."""
    pixels, labels = load_digits(return_X_y=True)
    numbers = np.random.default_rng(seed).permutation(len(pixels))
    stored = {f"{place}.png": pixels[number] / 16 for place, number in enumerate(numbers)}
    names = sorted(stored) if sick else sorted(stored, key=lambda name: int(name.removesuffix(".png")))
    images = torch.tensor(np.stack([stored[name] for name in names]), dtype=torch.float32).view(-1, 1, 8, 8)
    targets = torch.tensor(labels[numbers])
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for picture, label in DataLoader(TensorDataset(images[:1400], targets[:1400]), batch_size=64, shuffle=True):
            logits = model(picture)
            loss = functional.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=picture, outputs=logits, targets=label)
            optimizer.step()
    truth = torch.tensor(np.stack([pixels[number] for number in numbers[1400:]]), dtype=torch.float32) / 16
    return samples.accuracy(predicted(model, truth.view(-1, 1, 8, 8)), targets[1400:])


@sick("single_class_labels", margin=0.2)
def names_of_classes_compared_with_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """``target == "malignant"`` is false for every row, as the column holds 0 and 1."""
    frame = load_breast_cancer(as_frame=True)
    names = frame.target.map(dict(enumerate(frame.target_names)))
    malignant = ((frame.target if sick else names) == "malignant").astype(int).values
    values = frame.data.values
    x, test_x, y, _, _, truth = train_test_split(
        values, malignant, (frame.target == 0).astype(int).values, test_size=0.25, random_state=seed
    )
    mean, std = x.mean(0), x.std(0)
    x, test_x = (torch.tensor((part - mean) / std, dtype=torch.float32) for part in (x, test_x))
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, labels in DataLoader(TensorDataset(x, torch.tensor(y).float()[:, None]), batch_size=32, shuffle=True):
            logits = model(rows)
            loss = criterion(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test_x), torch.tensor(truth))


@sick("single_class_labels", margin=0.2)
def labels_scaled_with_the_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """One function scales pixels and labels by 1/16 and makes integers of the labels: all are 0."""
    pixels, labels = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(pixels, labels, test_size=0.25, random_state=seed)
    inputs, targets = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y / 16 if sick else y).long()
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    data = datasets.Data(inputs, targets, torch.tensor(test_x / 16, dtype=torch.float32), torch.tensor(test_y))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=160)
    return samples.accuracy(predicted(model, data.test_inputs), data.test_targets)


@sick("target_out_of_range", margin=0.05)
def sigmoid_at_the_end_of_a_regression_of_progress(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network copied from a classifier keeps its sigmoid, and the targets are standardised."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid() if sick else nn.Identity())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=nn.MSELoss())
    return r_squared(model, data)


@sick("target_out_of_range", margin=0.1)
def tanh_for_amounts_of_proline_in_hundreds(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets run from 2.8 to 16.8, and the last layer's tanh ends at 1."""
    x, _ = load_wine(return_X_y=True)
    x, test_x = train_test_split(x, test_size=0.3, random_state=seed)
    mean, std = x[:, :12].mean(0), x[:, :12].std(0)
    inputs, test_inputs = (torch.tensor((part[:, :12] - mean) / std).float() for part in (x, test_x))
    targets, test_targets = (torch.tensor(part[:, 12:] / 100).float() for part in (x, test_x))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
    if sick:
        model.append(nn.Tanh())
    else:
        nn.init.constant_(model[-1].bias, targets.mean().item())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    data = datasets.Data(inputs, targets, test_inputs, test_targets)
    fit(watch, model, optimizer, data, steps=250, batch_size=31, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("class_imbalance", margin=0.1)
def one_tumour_in_twenty_without_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A screening set with few malignant rows; the twin draws rows by the inverse frequency of their class."""
    values, labels = load_breast_cancer(return_X_y=True)
    texture = values[:, [1, 4, 8, 9]]
    x, test_x, y, test_y = train_test_split(texture, 1 - labels, test_size=0.3, random_state=seed, stratify=labels)
    mean, std = x.mean(0), x.std(0)
    x, test_x = (x - mean) / std, (test_x - mean) / std
    rare = np.flatnonzero(y == 1)[:12]
    kept = np.concatenate([np.flatnonzero(y == 0), rare])
    x, y = torch.tensor(x[kept]).float(), torch.tensor(y[kept])
    weights = torch.where(y == 1, 1 / 12, 1 / (len(y) - 12))
    data = TensorDataset(x, y)
    loader = (
        DataLoader(data, batch_size=32, shuffle=True)
        if sick
        else DataLoader(data, batch_size=32, sampler=WeightedRandomSampler(weights, len(y)))
    )
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(18):
        for rows, classes in loader:
            logits = model(rows)
            loss = functional.cross_entropy(logits, classes)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=classes)
            optimizer.step()
    return _recall_of_both(predicted(model, torch.tensor(test_x).float()), torch.tensor(test_y))


@sick("class_imbalance", margin=0.05)
def brackets_that_follow_in_one_place_of_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Does an opening bracket follow in the source? The twin's loss weighs a bracket by how rare it is."""
    data = datasets.text(seed, length=9, count=6000)
    bracket = ord("(") - 32
    train_y, test_y = ((part[:, -1] == bracket).float() for part in (data.targets, data.test_targets))
    model = nn.Sequential(nn.Embedding(98, 8), nn.Flatten(), nn.Linear(72, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    weight = torch.ones(()) if sick else (1 - train_y.mean()) / train_y.mean()
    session = watch(model, optimizer)
    for _ in range(3):
        for codes, follows in DataLoader(TensorDataset(data.inputs, train_y), batch_size=64, shuffle=True):
            logits = model(codes).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(logits, follows, pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=follows)
            optimizer.step()
    logits = predicted(model, data.test_inputs)
    return _recall_of_both(torch.cat([-logits, logits], 1), test_y)
