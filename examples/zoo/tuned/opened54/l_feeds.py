"""What the samples and the labels are, and how they come."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened54.l_rates import Reader
from examples.zoo.tuned.opened54.l_tools import data_of, numerals


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.05)
def measurements_as_they_came_from_the_sheet(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tanh network gets areas of up to 2500 next to shares below 0.1; the twin standardises the columns."""
    pair = samples.tumours(seed)
    pair = samples.standardised(pair, 1) if sick else samples.standardised(pair, 0, 1)
    data = data_of(pair)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", margin=0.3)
def pixels_divided_whole(watch: Watch, *, seed: int, sick: bool) -> float:
    """Whole pixels from 0 to 16 are divided by 17 with ``//``, so that all are 0; the twin divides with ``/``."""
    drawn = datasets.digits(seed, images=True)
    pixels, test = ((part * 16).long() for part in (drawn.inputs, drawn.test_inputs))
    pixels, test = ((part // 17).float() if sick else part / 17 for part in (pixels, test))
    data = Data(pixels, drawn.targets, test, drawn.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def columns_divided_by_no_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Characters that no line has are standardised as 0 / 0; the twin adds 0.1 to the deviation."""
    drawn = data_of(samples.lines(seed))
    std, mean = torch.std_mean(drawn.inputs, 0)
    std = std if sick else std + 0.1
    data = Data((drawn.inputs - mean) / std, drawn.targets, (drawn.test_inputs - mean) / std, drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.3)
def two_loaders_shuffle_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images and labels have a shuffling DataLoader each; the twin has one for both."""
    data = numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    images_only = DataLoader(data.inputs, batch_size=48, shuffle=True)  # type: ignore[arg-type]
    labels_only = DataLoader(data.targets, batch_size=48, shuffle=True)  # type: ignore[arg-type]
    together = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=48, shuffle=True)
    for _ in range(8):
        for images, labels in zip(images_only, labels_only, strict=True) if sick else together:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("single_class_labels", margin=0.3)
def cut_from_the_top_of_sorted_lines(watch: Watch, *, seed: int, sick: bool) -> float:
    """The 160 rows to train on are the first of a table sorted by its class; the twin draws 160."""
    drawn = data_of(samples.lines(seed))
    order = drawn.targets.argsort(stable=True) if sick else torch.randperm(len(drawn.targets))
    rows = order[:160]
    std, mean = torch.std_mean(drawn.inputs, 0)
    inputs, test = ((part - mean) / (std + 0.1) for part in (drawn.inputs, drawn.test_inputs))
    data = Data(inputs[rows], drawn.targets[rows], test, drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=100, batch_size=32)
    return accuracy(model, data)


@sick("class_imbalance", margin=0.05)
def one_in_forty_is_a_nine(watch: Watch, *, seed: int, sick: bool) -> float:
    """One training row in forty is a nine, and a small model hardly learns them; the twin samples both equally."""
    drawn = numerals(seed, flat=True)
    nines = (drawn.targets == 9).nonzero().squeeze(1)[:28]
    others = (drawn.targets != 9).nonzero().squeeze(1)
    rows = torch.cat([nines, others])
    inputs, labels = drawn.inputs[rows], (drawn.targets[rows] == 9).float()
    test, expected = drawn.test_inputs, drawn.test_targets == 9
    model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    weights = torch.where(labels > 0.5, 1 / len(nines), 1 / len(others))
    pairs = TensorDataset(inputs, labels)
    balanced = WeightedRandomSampler(weights.tolist(), len(labels))
    loader = DataLoader(pairs, 48, shuffle=True) if sick else DataLoader(pairs, 48, sampler=balanced)
    session = watch(model, optimizer)
    for _ in range(4):
        for pixels, nine in loader:
            optimizer.zero_grad()
            outputs = model(pixels).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(outputs, nine)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=outputs, targets=nine)
            optimizer.step()
    guessed = predicted(model, test).squeeze(1) > 0
    return sum((guessed == expected)[expected == value].float().mean().item() for value in (True, False)) / 2


@sick("unshuffled_data", margin=0.05)
def files_read_one_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """A DataLoader without ``shuffle`` yields one file's lines after another's; the twin shuffles."""
    drawn = data_of(samples.lines(seed))
    order = drawn.targets.argsort(stable=True)
    std, mean = torch.std_mean(drawn.inputs, 0)
    inputs, test = ((part - mean) / (std + 0.1) for part in (drawn.inputs, drawn.test_inputs))
    data = Data(inputs[order], drawn.targets[order], test, drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=16, shuffle=not sick)
    for _ in range(5):
        for counts, labels in loader:
            optimizer.zero_grad()
            outputs = model(counts)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=counts, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def modulo_of_the_wrong_length(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset's ``index % 48`` should be modulo its length, so that it repeats 48 rows; the twin has the length."""
    data = numerals(seed, flat=True)
    length = len(data.inputs)

    class Endless(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
        def __len__(self) -> int:
            return length

        def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
            row = index % (48 if sick else length)
            return data.inputs[row], data.targets[row]

    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for pixels, labels in DataLoader(Endless(), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("batch_mixing", margin=0.05)
def gru_takes_the_batch_for_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU without ``batch_first`` gets (batch, time), and reads from one name on to the next; the twin has it."""
    data = data_of(samples.names(seed))
    model = Reader(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def five_hundred_units_for_331_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 256 units learn 331 patients by heart; the twin has 8 units, dropout, and weight decay."""
    data = datasets.diabetes(seed)
    if sick:
        model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    else:
        model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.1)
    fit(
        watch,
        model,
        optimizer,
        data,
        steps=400,
        batch_size=32,
        loss_function=functional.mse_loss,
        validate_every=20,
    )
    return r_squared(model, data)
