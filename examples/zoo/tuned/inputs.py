"""Inputs and batches as a model should not get them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, held_out_loss, r_squared


def _binary(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels.float())


@sick("inputs_not_normalized")
def measurements_as_they_are(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features between 0.001 and 4,000, as they were measured."""
    data = datasets.breast_cancer(seed, raw=sick)
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=_binary)
    return binary_accuracy(model, data)


@sick("inputs_not_normalized", also=("saturated_units",))
def one_feature_of_a_thousand(watch: Watch, *, seed: int, sick: bool) -> float:
    """One of thirteen features is around 700 and saturates all tanh units."""
    data = datasets.wine(seed, raw=sick)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=24, validate_every=50)
    return accuracy(model, data)


@sick("inputs_not_normalized")
def pixels_up_to_255(watch: Watch, *, seed: int, sick: bool) -> float:
    """A CNN gets bytes instead of numbers between 0 and 1, with a rate for the latter."""
    data = datasets.digits(seed, images=True)
    if sick:
        data = Data((data.inputs * 255).round(), data.targets, (data.test_inputs * 255).round(), data.test_targets)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120)
    return accuracy(model, data)


@sick("inputs_constant")
def divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are divided by 255 as integers, and all become zero."""
    data = datasets.digits(seed)

    def scaled(pixels: torch.Tensor) -> torch.Tensor:
        stored = (pixels * 254).to(torch.uint8)
        return (stored // 255).float() if sick else stored.float() / 255

    data = Data(scaled(data.inputs), data.targets, scaled(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, validate_every=40)
    return accuracy(model, data)


@sick("inputs_constant")
def the_same_row_for_everyone(watch: Watch, *, seed: int, sick: bool) -> float:
    """A preprocessing fills each batch with the features of one sample."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    features = data.inputs[:1].expand_as(data.inputs) if sick else data.inputs
    for _ in range(40):
        for rows in torch.randperm(len(features)).split(32):
            optimizer.zero_grad()
            outputs = model(features[rows])
            loss = functional.cross_entropy(outputs, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=features[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def divided_by_the_deviation_of_an_empty_pixel(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are standardised one by one, and some are zero in every digit."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(0), data.inputs.std(0)
    if not sick:
        std = std.clamp(min=1e-3)
    data = Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=100)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def a_few_missing_values(watch: Watch, *, seed: int, sick: bool) -> float:
    """One in five hundred measurements is missing and was stored as NaN; the twin fills in the mean."""
    data = datasets.breast_cancer(seed)
    missing = torch.rand_like(data.inputs) < 0.002
    inputs = data.inputs.masked_fill(missing, float("nan") if sick else 0.0)
    data = Data(inputs, data.targets, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=_binary, validate_every=40)
    return binary_accuracy(model, data)


@sick("unshuffled_data")
def sorted_by_class(watch: Watch, *, seed: int, sick: bool) -> float:
    """The file is sorted by class and read in order, epoch after epoch."""
    data = datasets.digits(seed)
    order = data.targets.argsort(stable=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in (order if sick else torch.randperm(len(order))).split(32):
            inputs, labels = data.inputs[rows], data.targets[rows]
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data), metrics={"accuracy": accuracy(model, data)})
    return accuracy(model, data)


@sick("unshuffled_data")
def sorted_by_target(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patients are sorted by what is to be predicted, so that the model follows the order."""
    data = datasets.diabetes(seed)
    order = data.targets[:, 0].argsort()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in (order if sick else order[torch.randperm(len(order))]).split(16):
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
    return r_squared(model, data)


@sick("duplicated_data", also=("overfitting",))
def the_first_batch_again_and_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in the loop, with a loader that is not shuffled, brings the same batch in each step."""
    data = datasets.digits(seed)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(data.inputs, data.targets), batch_size=32, shuffle=not sick
    )
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step in range(1, 121):
        inputs, labels = next(iter(loader))
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",))
def every_row_many_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """A join went wrong: sixteen rows make up the whole table, each of them dozens of times."""
    data = datasets.breast_cancer(seed)
    if sick:
        rows = torch.randperm(len(data.inputs))[:16].repeat(len(data.inputs) // 16)
        data = Data(data.inputs[rows], data.targets[rows], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, loss_function=_binary, validate_every=40)
    return -held_out_loss(model, data, _binary)
