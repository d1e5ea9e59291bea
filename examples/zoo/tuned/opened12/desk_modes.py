"""Modes, regularisation, capacity of memory: models that are judged wrongly, held back, or know by heart."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared


@sick("wrong_mode", margin=0.03)
def eval_forgotten_when_pictures_come_one_by_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """After each epoch pictures are named one by one, and batch norm takes its statistics from each alone."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    pictures, numbers = test.tensors[0][:100], test.tensors[1][:100]
    right = 0.0
    for _ in range(4):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            logits = torch.cat([model(picture) for picture in pictures.split(1)])
            session.validation(functional.cross_entropy(logits, numbers).item())
        right = samples.accuracy(logits, numbers)
    return right


@sick("wrong_mode", margin=0.03)
def validation_of_readers_who_still_drop_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """The validation has its ``no_grad`` but no ``model.eval()``: half of the units are dropped in it."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    quality = 0.0
    for _ in range(10):
        model.train()
        for counts, files in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            logits = model(test.tensors[0])
            session.validation(functional.cross_entropy(logits, test.tensors[1]).item())
        quality = samples.accuracy(logits, test.tensors[1])
    return quality


@sick("over_regularized", margin=0.05)
def weight_decay_of_a_third_with_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """``weight_decay=0.3`` in Adam, where its gradient is added to the loss's and soon all there is."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=0.3 if sick else 1e-4)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("over_regularized", margin=0.05)
def dropout_of_nine_tenths_on_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """0.9 was meant as the share that is kept."""
    train, test = samples.numerals(seed)
    rate = 0.9 if sick else 0.1
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(rate), nn.Linear(48, 48), nn.ReLU(), nn.Dropout(rate),
        nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("over_regularized", margin=0.05)
def lasso_by_hand_with_a_factor_of_a_quarter(watch: Watch, *, seed: int, sick: bool) -> float:
    """``loss + 0.25 * sum(|w|)`` over all weights of a net that forecasts a diabetes' progress."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    factor = 0.25 if sick else 1e-4
    session = watch(model, optimizer)
    for features, progress in data.batches(48, 200):
        guess = model(features)
        loss = functional.mse_loss(guess, progress)
        loss = loss + factor * sum(weight.abs().sum() for weight in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features, outputs=guess, targets=progress)
        optimizer.step()
    return r_squared(model, data)


@sick("overfitting", margin=0.1)
def wide_net_for_a_hundred_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns a hundred patients by heart; its twin decays its weights, drops units and stops in time."""
    data = datasets.diabetes(seed)
    rows = torch.utils.data.TensorDataset(data.inputs[:100], data.targets[:100])
    if sick:
        model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    else:
        model = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.1)
    session = watch(model, optimizer)
    for _ in range(60 if sick else 25):
        model.train()
        for features, progress in DataLoader(rows, batch_size=20, shuffle=True):
            guess = model(features)
            loss = functional.mse_loss(guess, progress)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features, outputs=guess, targets=progress)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            session.validation(functional.mse_loss(model(data.test_inputs), data.test_targets).item())
    return r_squared(model, data)


@sick("overfitting", margin=0.04)
def two_hundred_snippets_until_no_error_is_left(watch: Watch, *, seed: int, sick: bool) -> float:
    """Which character comes after eight others? 200 snippets are learnt by heart; the twin has all, and dropout."""
    data = datasets.text(seed, length=8, count=4000)
    rows = torch.utils.data.TensorDataset(data.inputs, data.targets[:, -1])
    if sick:
        rows = Subset(rows, range(200))
    width, dropped = (128, 0.0) if sick else (64, 0.2)
    model = nn.Sequential(
        nn.Embedding(98, 16), nn.Flatten(), nn.Linear(128, width), nn.ReLU(), nn.Dropout(dropped), nn.Linear(width, 98)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(40 if sick else 5):
        model.train()
        for codes, following in DataLoader(rows, batch_size=25 if sick else 48, shuffle=True):
            logits = model(codes)
            loss = functional.cross_entropy(logits, following)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            logits = model(data.test_inputs)
            session.validation(functional.cross_entropy(logits, data.test_targets[:, -1]).item())
    return samples.accuracy(logits, data.test_targets[:, -1])
