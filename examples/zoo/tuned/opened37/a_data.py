"""Inputs and labels: their scale, order, classes and how they belong together."""

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened37.a_common import (
    Enlarger,
    Tagger,
    coarse,
    each_place,
    explained,
    lenet,
    numerals,
    parted,
    right_places,
    tagged,
)


@sick("inputs_not_normalized", also=("poor_initialization",), margin=0.03)
def colours_as_a_camera_gives_them(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network gets coarse patches as bytes from 0 to 255; the twin takes their mean and deviation out."""
    small, large = coarse(seed)
    brightness = large.mean((1, 2, 3))
    pixels = small if sick else (small - small.mean()) / small.std()
    data = parted(pixels, (large[:, :1] - brightness[:, None, None, None]).flatten(1) / 60, seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("inputs_constant", margin=0.2)
def bytes_divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Bytes are divided by 255 as integers, so nearly all pixels are 0; the twin divides them as floats."""
    small, large = (one.clamp(0, 254).byte() for one in coarse(seed))
    pixels = (small // 255).float() if sick else (small.float() / 255 - 0.5) / 0.3
    data = parted(pixels, (large.float() / 255 - 0.5) / 0.3, seed)
    model = Enlarger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def pixels_that_are_always_blank(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each pixel is divided by its deviation, which is 0 at the margins, and becomes NaN; the twin adds 0.1 to it."""
    drawn = datasets.digits(seed)
    mean, std = drawn.inputs.mean(0), drawn.inputs.std(0)
    std = std if sick else std + 0.1
    data = Data((drawn.inputs - mean) / std, drawn.targets, (drawn.test_inputs - mean) / std, drawn.test_targets)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.2)
def argmax_over_a_single_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels in one column go through ``argmax(1)``, as those of one column per class would; the twin flattens them."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    data = Data(train.tensors[0], train.tensors[1][:, None].float(), *test.tensors)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for tumours, column in data.batches(32, 200):
        labels = column.argmax(1) if sick else column[:, 0].long()
        optimizer.zero_grad()
        outputs = model(tumours)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=tumours, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.2)
def two_loaders_that_shuffle(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures and labels come from a loader each, and each shuffles for itself; the twin has one loader for both."""
    data = numerals(seed)
    model = lenet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    if sick:
        loaders = [DataLoader(one, batch_size=64, shuffle=True) for one in (data.inputs, data.targets)]
    else:
        loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=64, shuffle=True)
    for _ in range(10):
        for pictures, labels in zip(*loaders, strict=True) if sick else loader:
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("class_imbalance", margin=0.05)
def one_nine_in_sixty(watch: Watch, *, seed: int, sick: bool) -> float:
    """A nine among sixty other digits is what is looked for; the twin draws both kinds equally often."""
    values, labels = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    nines, others = (random.permutation(np.flatnonzero(one)) for one in (labels == 9, labels != 9))
    rows = np.concatenate([nines[:18], others[:1080]])
    test = np.concatenate([nines[18:], others[1080 : 1080 + len(nines) - 18]])
    pixels = torch.from_numpy((values - values.mean()) / values.std()).float()
    wanted = torch.from_numpy(labels == 9).float()[:, None]
    data = Data(pixels[rows], wanted[rows], pixels[test], wanted[test])
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    weights = torch.where(data.inputs.new_tensor(labels[rows] == 9) > 0, 60.0, 1.0)
    session = watch(model, optimizer)
    for step in range(200):
        chosen = torch.randint(len(rows), (64,)) if sick else torch.multinomial(weights, 64, replacement=True)
        optimizer.zero_grad()
        outputs = model(data.inputs[chosen])
        loss = functional.binary_cross_entropy_with_logits(outputs, data.targets[chosen])
        loss.backward()
        session.step(loss, inputs=data.inputs[chosen], outputs=outputs, targets=data.targets[chosen])
        optimizer.step()
        if step % 50 == 49:
            session.validation(held_out_loss(model, data, functional.binary_cross_entropy_with_logits))
    return binary_accuracy(model, Data(data.inputs, data.targets, data.test_inputs, data.test_targets[:, 0]))


@sick("unshuffled_data", margin=0.05)
def folders_read_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are read folder by folder, one for each number, and ``shuffle`` is off; the twin has it on."""
    data = numerals(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        for pictures, labels in loader:
            optimizer.zero_grad()
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def next_of_a_new_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in the loop takes the first batch again and again; the twin goes on with one iterator."""
    data = tagged(seed)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    batches = iter(loader)
    for step in range(200):
        if not sick and step % len(loader) == 0:
            batches = iter(DataLoader(loader.dataset, batch_size=32, shuffle=True))
        characters, kinds = next(iter(loader)) if sick else next(batches)
        optimizer.zero_grad()
        outputs = model(characters)
        loss = each_place(outputs, kinds)
        loss.backward()
        session.step(loss, inputs=characters, outputs=outputs, targets=kinds)
        optimizer.step()
    return right_places(model, data)


@sick("overfitting", margin=0.03)
def sixty_wines_and_a_wide_network(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns the proline of sixty wines by heart; the twin is small, has a decay and drops units."""
    values = torch.from_numpy(load_wine(return_X_y=True)[0]).float()
    train, test = samples.standardised(samples.split(seed, values[:, :12], values[:, 12:], share=0.35), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    if sick:
        model = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    else:
        model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.3)
    fit(watch, model, optimizer, data, steps=200, batch_size=16, loss_function=functional.mse_loss, validate_every=20)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
