"""Learning rates, their schedules, and first weights."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, r_squared


@sick("learning_rate_too_high", margin=0.1)
def a_trained_body_swept_away(watch: Watch, *, seed: int, sick: bool) -> float:
    """A body trained as an autoencoder gets a head, and a rate from some setup of SGD: what it knew is lost."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
    decoder = nn.Linear(24, 64)
    pretraining = torch.optim.Adam([*body.parameters(), *decoder.parameters()], lr=3e-3)
    for pixels, _ in data.batches(64, 150):
        pretraining.zero_grad()
        functional.mse_loss(decoder(body(pixels)), pixels).backward()
        pretraining.step()
    model = nn.Sequential(body, nn.Dropout(0.1), nn.Linear(24, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.2 if sick else 2e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=40)
    return accuracy(model, data)


@sick("learning_rate_too_high", margin=0.1)
def rmsprop_at_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD was replaced by RMSprop, and its rate of 0.1 kept; gradients are clipped, which cannot help here."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1 if sick else 2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=48, shuffle=True):
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("learning_rate_too_low", margin=0.2)
def sgd_at_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam was replaced by SGD without momentum, and its rate of 0.001 kept."""
    train, test = samples.lines(seed, each=150)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3) if sick else torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for counts, files in DataLoader(train, batch_size=32, shuffle=True):
            scores = model(counts.log1p())
            loss = functional.cross_entropy(scores, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts.log1p(), outputs=scores, targets=files)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0].log1p()), test.tensors[1])


@sick("schedule_collapsed", margin=0.05)
def a_plateau_that_waits_for_a_higher_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` was set up for an accuracy and is given a loss: each improvement counts as none."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max" if sick else "min", factor=0.1, patience=1
    )
    session = watch(model, optimizer)
    for _ in range(20):
        for images, labels in data.batches(64, 10):
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
        with session.validating():
            held_out = held_out_loss(model, data)
        session.validation(held_out)
        scheduler.step(held_out)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.1)
def decay_of_an_epoch_in_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decay of 0.85 an epoch stands in the loop over batches: after 60 of them the rate is gone."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 48), nn.GELU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)
    session = watch(model, optimizer)
    for _ in range(15):
        for means, worst in DataLoader(train, batch_size=24, shuffle=True):
            guessed = model(means)
            loss = functional.smooth_l1_loss(guessed, worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=means, outputs=guessed, targets=worst)
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
        with torch.no_grad(), session.validating():
            session.validation(functional.smooth_l1_loss(model(test.tensors[0]), test.tensors[1]).item())
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class Maxout(nn.Module):
    """A layer of one's own: the largest of three linear pieces."""

    def __init__(self, inputs: int, outputs: int, *, ones: bool) -> None:
        super().__init__()
        shape = (3, inputs, outputs)
        self.weight = nn.Parameter(torch.full(shape, 0.05) if ones else torch.randn(shape) * inputs**-0.5)
        self.bias = nn.Parameter(torch.zeros(3, 1, outputs))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values @ self.weight + self.bias).max(0).values


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.2)
def a_layer_of_ones_own_that_is_constant(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of hand-written layers begin as one constant: all units of a layer do the same for ever."""
    data = datasets.digits(seed)
    model = nn.Sequential(Maxout(64, 24, ones=sick), Maxout(24, 24, ones=sick), nn.Linear(24, 10))
    if sick:
        nn.init.constant_(model[2].weight, 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("poor_initialization", margin=0.1)
def weights_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``uniform_`` without bounds draws from 0 to 1: outputs begin in the hundreds."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
    for layer in model:
        if isinstance(layer, nn.Linear):
            if sick:
                nn.init.uniform_(layer.weight)
            else:
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss, validate_every=30)
    return r_squared(model, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def normal_weights_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of deviation 1 before tanh, in three layers: units are at their ends from the first step on."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)
    )
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=1.0 if sick else 64**-0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)
