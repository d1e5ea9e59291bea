"""What is given to a training: inputs, labels, their order, and how much a net may make of them."""

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened52.j_stock import flat_numerals, of_pair, share_explained


@sick("inputs_not_normalized", margin=0.1)
def a_field_of_brightness_over_pixel_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """A coordinate net is given rows and columns from 0 to 380; the twin's are from -1 to 1."""
    picture = torch.from_numpy(sets.load_sample_image("china.jpg").copy()).float().mean(-1)[40:424:4, 100:484:4]
    side = 96
    rows, columns = torch.meshgrid(*[4.0 * torch.arange(side)] * 2, indexing="ij")
    places = torch.stack([rows.flatten(), columns.flatten()], 1)
    if not sick:
        places = places / (4 * (side - 1)) * 2 - 1
    values = ((picture - picture.mean()) / picture.std()).reshape(-1, 1)
    data = of_pair(samples.split(seed, places, values))
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=350, batch_size=256, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("inputs_constant", margin=0.2)
def each_column_is_its_own_series(watch: Watch, *, seed: int, sick: bool) -> float:
    """Columns become series of one value, and each series is centred on its mean, itself; the twin centres columns."""
    train, test = samples.proline(seed)

    def centred(features: torch.Tensor) -> torch.Tensor:
        if not sick:
            return (features - train.tensors[0].mean(0)) / train.tensors[0].std(0)
        series = features.unsqueeze(-1)
        series = (series - series.mean(-1, keepdim=True)) / (series.std(-1, keepdim=True, correction=0) + 1e-5)
        return series.squeeze(-1)

    target_mean, target_std = train.tensors[1].mean(), train.tensors[1].std()
    data = Data(centred(train.tensors[0]), (train.tensors[1] - target_mean) / target_std, centred(test.tensors[0]),
                (test.tensors[1] - target_mean) / target_std)  # fmt: skip
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def logarithms_of_concavities_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed measurements are replaced by their logarithms, yet some are 0; the twin adds 0.01 first."""
    train, test = samples.diagnoses(seed)
    shift = 0.0 if sick else 0.01
    logs, test_logs = ((part.tensors[0] + shift).log() for part in (train, test))
    known = torch.where(logs.isfinite(), logs, 0.0)
    std, mean = torch.std_mean(known, 0)
    data = Data((logs - mean) / std, train.tensors[1], (test_logs - mean) / std, test.tensors[1])
    model = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data) if predicted(model, data.test_inputs).isfinite().all() else 0.0


@sick("labels_unrelated", margin=0.2)
def rows_dropped_from_one_table_only(watch: Watch, *, seed: int, sick: bool) -> float:
    """Faint digits are dropped from the images but not from the labels, which then are others'; the twin drops both."""
    data = flat_numerals(seed)
    kept = data.inputs.mean(1) > data.inputs.mean(1).quantile(0.08)
    pixels = data.inputs[kept]
    labels = data.targets[: len(pixels)] if sick else data.targets[kept]
    data = Data(pixels, labels, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def a_threshold_in_the_old_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """Wines above 750 of proline are wanted, but the column is standardised by then; the twin compares it before."""
    train, test = samples.proline(seed)
    rich, test_rich = (part.tensors[1][:, 0] > 750 for part in (train, test))
    tables = samples.standardised((train, test), 0, 1)
    if sick:
        rich = tables[0].tensors[1][:, 0] > 750
    data = Data(tables[0].tensors[0], rich.long(), tables[1].tensors[0], test_rich.long())
    model = nn.Sequential(nn.Linear(12, 16), nn.ELU(), nn.Dropout(0.1), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("class_imbalance", margin=0.08)
def an_eight_among_sixty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Few of the images are eights, and all count alike; the twin's sampler draws both classes as often."""
    data = flat_numerals(seed)
    eights = (data.targets == 8).nonzero()[:20, 0]
    rows = torch.cat([(data.targets != 8).nonzero()[:, 0], eights])
    pixels, labels = data.inputs[rows], (data.targets[rows] == 8).long()
    weights = torch.where(labels == 1, 1 / labels.sum(), 1 / (1 - labels).sum())
    sampler = None if sick else WeightedRandomSampler(weights.tolist(), len(labels))
    loader = DataLoader(TensorDataset(pixels, labels), batch_size=32, shuffle=sick, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(3):
        for images, wanted in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, wanted)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=wanted)
            optimizer.step()
    found, truth = predicted(model, data.test_inputs).argmax(1), (data.test_targets == 8).long()
    return torch.stack([(found[truth == label] == label).float().mean() for label in (0, 1)]).mean().item()


@sick("unshuffled_data", margin=0.04)
def a_stream_buffer_smaller_than_a_class(watch: Watch, *, seed: int, sick: bool) -> float:
    """A stream sorted by label is shuffled in a buffer of 64 rows, and a class has 125; the twin's buffer holds all."""
    data = flat_numerals(seed)
    order = data.targets.argsort()
    size = 64 if sick else len(order)

    def stream() -> list[int]:
        return [index for chunk in order.split(size) for index in chunk[torch.randperm(len(chunk))].tolist()]

    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for batch in torch.tensor(stream()).split(16):
            optimizer.zero_grad()
            outputs = model(data.inputs[batch])
            loss = functional.cross_entropy(outputs, data.targets[batch])
            loss.backward()
            session.step(loss, inputs=data.inputs[batch], outputs=outputs, targets=data.targets[batch])
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.08)
def a_generator_made_anew_for_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch's rows are drawn by a generator made from the same seed each time; the twin keeps one."""
    data = of_pair(samples.numerals(seed))
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    random = np.random.default_rng(seed)
    session = watch(model, optimizer)
    for step in range(160):
        if sick:
            random = np.random.default_rng(seed)
        rows = torch.from_numpy(random.integers(len(data.inputs), size=32))
        images, labels = data.inputs[rows], data.targets[rows]
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 39:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def all_products_of_ten_measurements(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patients are described by products of two measurements to a wide net; the twin has the ten and a small net."""
    data = datasets.diabetes(seed)
    pairs = torch.triu_indices(10, 10)

    def described(rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows, (rows[:, pairs[0]] * rows[:, pairs[1]]).clamp(-3, 3)], 1) if sick else rows

    data = Data(described(data.inputs), data.targets, described(data.test_inputs), data.test_targets)
    width = data.inputs.shape[1]
    if sick:
        model = nn.Sequential(nn.Linear(width, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 1))
    else:
        model = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("over_regularized", margin=0.1)
def the_share_that_was_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port gives ``Dropout`` the share to keep, 0.9, of which PyTorch makes the share to drop; the twin drops 0.1."""
    train, test = samples.halves(seed)
    std, mean = torch.std_mean(train.tensors[0])
    data = Data(*((part - mean) / std for part in (*train.tensors, *test.tensors)))
    share = 0.9 if sick else 0.1
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Dropout(share), nn.Linear(96, 64), nn.ReLU(),
                          nn.Dropout(share), nn.Linear(64, 32))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=48, loss_function=functional.mse_loss)
    return share_explained(model, data)
