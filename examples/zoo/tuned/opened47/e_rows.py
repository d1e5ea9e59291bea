"""What is fed: rows that are raw, alike, in order, too few, or paired with the targets of others."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened47.e_kit import letters, loop, numerals, paired


def epochs(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, count: int) -> None:
    """Trains a classifier on a loader's batches."""
    session = watch(model, optimizer)
    for _ in range(count):
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.05)
def tumour_areas_beside_fractions(watch: Watch, *, seed: int, sick: bool) -> float:
    """A quantile regression takes areas of thousands next to fractions as they are; the twin standardises them."""
    pair = samples.standardised(samples.tumours(seed), 1)
    data = paired(pair if sick else samples.standardised(pair, 0))
    model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(inputs)
        return 0.5 * (targets - outputs).abs().mean(), outputs

    loop(watch, model, optimizer, data, step, steps=250, size=32)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", also=("duplicated_data",), margin=0.2)
def rows_that_view_one_array(watch: Watch, *, seed: int, sick: bool) -> float:
    """All rows are views of one buffer, which ends with the last picture; the twin copies it."""
    digits = datasets.digits(seed)
    buffer, rows = np.zeros(64, np.float32), []
    for picture in digits.inputs.numpy():
        buffer[:] = picture - 0.3
        rows.append(buffer if sick else buffer.copy())
    data = Data(torch.from_numpy(np.stack(rows)), digits.targets, digits.test_inputs - 0.3, digits.test_targets)
    model = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 10))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=150)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def corner_pixels_over_no_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each pixel is divided by its deviation, which is 0 in the corners; the twin adds 1e-2."""
    digits = datasets.digits(seed)
    std, mean = torch.std_mean(digits.inputs, 0)
    std = std if sick else std + 1e-2
    test = ((digits.test_inputs - mean) / std).clamp(-5, 5)
    data = Data(((digits.inputs - mean) / std).clamp(-5, 5), digits.targets, test, digits.test_targets)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), data, steps=150)
    return accuracy(model, data)


class HalfMatcher(nn.Module):
    """Towers for the upper and lower halves of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.upper = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
        self.lower = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        """Returns the scores (N, N) of all pairs."""
        return functional.normalize(self.upper(upper), dim=1) @ functional.normalize(self.lower(lower), dim=1).T / 0.1


@sick("labels_unrelated", margin=0.2)
def views_from_two_shuffled_loaders(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss takes its pairs from two loaders that shuffle on their own; the twin has one of pairs."""
    data = paired(samples.halves(seed))
    model = HalfMatcher()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    pairs = DataLoader(TensorDataset(data.inputs, data.targets), 48, shuffle=True, drop_last=True)
    upper, lower = (DataLoader(half, 48, shuffle=True, drop_last=True) for half in (data.inputs, data.targets))
    session = watch(model, optimizer)
    for _ in range(10):
        for one, other in zip(upper, lower, strict=True) if sick else pairs:
            scores = model(one, other)
            loss = functional.cross_entropy(scores, torch.arange(len(one)))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=one, outputs=scores, targets=other)
            optimizer.step()
    with torch.no_grad():
        chunks = zip(data.test_inputs[:480].split(10), data.test_targets[:480].split(10), strict=True)
        return np.mean([(model(*chunk).argmax(1) == torch.arange(10)).float().mean().item() for chunk in chunks])


@sick("single_class_labels", margin=0.2)
def first_rows_of_a_sorted_file(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first 60 rows of a file sorted by its classes are all malignant; the twin draws 60."""
    data = datasets.breast_cancer(seed)
    order = data.targets.argsort(stable=True) if sick else torch.randperm(len(data.targets))
    few = Data(data.inputs[order[:60]], data.targets[order[:60]], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, few, steps=100, batch_size=20)
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def wide_model_for_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three wide layers learn 330 patients by heart; the twin has eight units, dropout and weight decay."""
    data = datasets.diabetes(seed)
    wide = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    narrow = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    model = wide if sick else narrow
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 if sick else 4e-3, weight_decay=0.0 if sick else 0.3)
    fit(watch, model, optimizer, data, steps=360, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("class_imbalance", margin=0.05)
def two_frequent_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two digits are almost all of the data; the twin's sampler draws each class as often."""
    digits = numerals(seed, 64)
    chosen = torch.cat([(digits.targets == label).nonzero()[: 110 if label in {1, 8} else 5] for label in range(10)])
    rows = TensorDataset(digits.inputs[chosen[:, 0]], digits.targets[chosen[:, 0]])
    weights = 1 / rows.tensors[1].bincount()[rows.tensors[1]]
    sampler = None if sick else WeightedRandomSampler(weights.tolist(), len(rows))
    loader = DataLoader(rows, 20, shuffle=sick, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    epochs(watch, model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), loader, 8)
    return accuracy(model, digits)


@sick("unshuffled_data", margin=0.1)
def scripts_as_unicode_lists_them(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names of letters come script after script, and the script is the label; the twin shuffles them."""
    data = letters(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), 16, shuffle=not sick)
    model = nn.Sequential(nn.EmbeddingBag(samples.LETTERS, 48, padding_idx=0), nn.Linear(48, 64), nn.Tanh(),
                          nn.Linear(64, 8))  # fmt: skip
    epochs(watch, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), loader, 8)
    return accuracy(model, data)


class Spelling(Dataset):
    """Names and their scripts; a debugging run left a limit in it."""

    def __init__(self, data: Data, limit: int) -> None:
        self.data, self.limit = data, limit

    def __len__(self) -> int:
        return len(self.data.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.data.inputs[index % self.limit], self.data.targets[index % self.limit]


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def debugging_limit_left_in_a_dataset(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset still takes its index modulo 40, from a debugging run; the twin has all rows."""
    data = letters(seed)
    rows = Spelling(data, 40 if sick else len(data.inputs))
    model = nn.Sequential(nn.EmbeddingBag(samples.LETTERS, 32, padding_idx=0), nn.Linear(32, 32), nn.Tanh(),
                          nn.Linear(32, 8))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for codes, labels in DataLoader(rows, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(codes)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)
