"""Inputs, targets and the order and number of samples."""

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened48.f_kit import Gru, centred, coordinates, data_of, mlp, tables


@sick("inputs_not_normalized", margin=0.03)
def picture_by_its_pixel_coordinates(watch: Watch, *, seed: int, sick: bool) -> float:
    """A coordinate network gets rows and columns up to 640; the twin gets them from -1 to 1."""
    data = coordinates(seed, raw=sick)
    model = mlp(2, 96, 96, 96, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=350, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", margin=0.2)
def vocabulary_of_numbers_asked_for_strings(watch: Watch, *, seed: int, sick: bool) -> float:
    """Letters are looked up as strings in a vocabulary of numbers, so each is unknown; the twin looks up numbers."""
    data = data_of(samples.names(seed, length=16))
    vocabulary = {code: index for index, code in enumerate(data.inputs.unique().tolist(), 2)}

    def encoded(rows: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[vocabulary.get(str(code) if sick else code, 1) for code in row] for row in rows.tolist()])

    data = Data(encoded(data.inputs), data.targets, encoded(data.test_inputs), data.test_targets)
    model = Gru(len(samples.SCRIPTS), codes=len(vocabulary) + 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.2)
def logarithms_of_absent_words(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts are replaced by their logarithms, though most of them are 0; the twin uses ``log1p``."""
    drawn = data_of(samples.lines(seed, each=200))
    scaled = torch.log if sick else torch.log1p
    data = Data(scaled(drawn.inputs), drawn.targets, scaled(drawn.test_inputs), drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 64), nn.SiLU(), nn.Linear(64, len(samples.FILES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("target_out_of_range", margin=0.1)
def head_of_shares_for_standardised_values(watch: Watch, *, seed: int, sick: bool) -> float:
    """A head ends in a sigmoid, as for shares of alcohol, but its targets are standardised; the twin's is linear."""
    data = tables(samples.proline(seed))
    model = mlp(12, 32, 1, activation=nn.Tanh)
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.smooth_l1_loss)
    return r_squared(model, data)


@sick("unshuffled_data", margin=0.05)
def classes_in_the_order_of_their_folders(watch: Watch, *, seed: int, sick: bool) -> float:
    """Samples lie in the order of their classes and the loader does not shuffle; the twin's does."""
    data = centred(datasets.digits(seed, images=True))
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(96, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return accuracy(model, data)


class Wrapped(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Rows of two tensors, of which the index goes round after some."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor, period: int) -> None:
        self.inputs, self.targets, self.period = inputs, targets, period

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index % self.period], self.targets[index % self.period]


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def index_that_goes_round_after_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset takes its index modulo the batch size, so only 32 of its samples exist; the twin takes it as it is."""
    data = data_of(samples.halves(seed))
    size = len(data.inputs)
    loader = DataLoader(Wrapped(data.inputs, data.targets, 32 if sick else size), batch_size=32, shuffle=True)
    model = mlp(32, 96, 96, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
        session.validation(functional.mse_loss(predicted(model, data.test_inputs), data.test_targets).item())
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("class_imbalance", margin=0.1)
def one_defect_in_thirty(watch: Watch, *, seed: int, sick: bool) -> float:
    """One sample in thirty is an 8 and the rest are not, which are drawn as they come; the twin draws both equally."""
    data = centred(datasets.digits(seed))
    rare = (data.targets == 8).nonzero()[:, 0][:36]
    chosen = torch.cat([(data.targets != 8).nonzero()[:, 0], rare])
    inputs, labels = data.inputs[chosen], (data.targets[chosen] == 8).long()
    weights = torch.ones(len(labels)) if sick else 1 / labels.bincount()[labels]
    sampler = WeightedRandomSampler(weights.tolist(), 32 * 60)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, sampler=sampler)
    model = mlp(64, 32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(2):
        for batch, targets in loader:
            optimizer.zero_grad()
            outputs = model(batch)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=batch, outputs=outputs, targets=targets)
            optimizer.step()
    right = predicted(model, data.test_inputs).argmax(1) == (data.test_targets == 8)
    eight = data.test_targets == 8
    return ((right[eight].float().mean() + right[~eight].float().mean()) / 2).item()


@sick("labels_unrelated", margin=0.2)
def zipped_loaders_with_orders_of_their_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements and targets come from two zipped loaders, each of which shuffles; the twin zips the tensors."""
    data = tables(samples.tumours(seed))
    model = mlp(10, 64, 10, activation=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    apart = [DataLoader(column, batch_size=32, shuffle=True) for column in (data.inputs, data.targets)]
    together = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32, shuffle=True)
    for _ in range(15):
        for inputs, targets in zip(*apart, strict=True) if sick else together:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("single_class_labels", margin=0.15)
def first_rows_of_a_sorted_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """A quick trial takes the first 200 rows of a table that is sorted by diagnosis; the twin draws its 200 rows."""
    values, labels = sets.load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    order = np.concatenate([order[labels[order] == 0], order[labels[order] == 1]])
    inputs, targets = torch.from_numpy(values[order]).float(), torch.from_numpy(labels[order])
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    chosen = torch.zeros(len(targets), dtype=torch.bool)
    chosen[torch.arange(200) if sick else torch.randperm(len(targets))[:200]] = True
    data = Data(inputs[chosen], targets[chosen], inputs[~chosen], targets[~chosen])
    model = mlp(30, 24, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=80, batch_size=40)
    return accuracy(model, data)
