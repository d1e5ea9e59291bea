"""Sound trainings that look odd: rates, batches, parts that rest and labels that are soft."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, breast_cancer, digits, wine
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened36.b_ends import looker
from examples.zoo.tuned.opened36.b_stock import explained, shelves, sums, turned


@healthy(at_least=0.9)
def one_cycle_of_rates(watch: Watch, *, seed: int) -> float:
    """The rate rises to 0.05 and falls to nearly 0 in one cycle, while momentum does the opposite."""
    data = turned(seed)
    model = looker(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=250)
    loss_function = functional.smooth_l1_loss
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=loss_function, scheduler=scheduler)
    return explained(model, data)


@healthy(at_least=0.85)
def batches_of_three_wines(watch: Watch, *, seed: int) -> float:
    """Batches of three rows and labels smoothed by 0.2: the loss jumps, and never comes near 0."""
    data = wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for rows, kinds in data.batches(3, 400):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, kinds, label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.7)
def a_body_that_read_digits_reads_angles(watch: Watch, *, seed: int) -> float:
    """Convolutions that learnt digits stay frozen on purpose, and a new head says how far digits are turned."""
    data = turned(seed)
    body = looker(10)
    known = digits(seed, images=True)
    first = torch.optim.Adam(body.parameters(), lr=3e-3)
    for pixels, labels in known.batches(64, 80):
        first.zero_grad()
        functional.cross_entropy(body((pixels - 0.3) / 0.37), labels).backward()
        first.step()
    kept = body[:7].requires_grad_(False)
    model = nn.Sequential(kept, nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@healthy(at_least=0.75)
def words_left_out_at_random(watch: Watch, *, seed: int) -> float:
    """Half of the inputs and of the units are dropped, so that training's loss is above the validation's."""
    data = shelves(seed)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(256, 96), nn.ReLU(), nn.Dropout(0.5), nn.Linear(96, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        model.train()
        for rows, files in data.batches(32, 18):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, files)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
    return accuracy(model, data)


@healthy(at_least=0.9)
def easy_digits_before_hard_ones(watch: Watch, *, seed: int) -> float:
    """A curriculum begins with three classes and adds the others, so that the loss rises at each."""
    data = digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for known in (3, 6, 10, 10):
        rows = data.targets < known
        stage = Data((data.inputs[rows] - 0.3) / 0.37, data.targets[rows], data.test_inputs, data.test_targets)
        for pixels, labels in stage.batches(48, 80):
            optimizer.zero_grad()
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, Data(data.inputs, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets))


@healthy(at_least=0.65)
def a_sum_whose_loss_is_in_the_hundreds(watch: Watch, *, seed: int) -> float:
    """Targets are sums of digits times 10; the model scales its output, and the squared error is huge."""
    data = sums(seed)
    big = Data(data.inputs, data.targets * 10, data.test_inputs, data.test_targets * 10)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = looker(1)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return 90 + 40 * self.body(pictures)

    model = Scaled()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, big, steps=200, batch_size=24, loss_function=functional.mse_loss, validate_every=60)
    return explained(model, big)


@healthy(at_least=0.9)
def an_average_that_follows_the_weights(watch: Watch, *, seed: int) -> float:
    """An average of the weights has no gradient and is what is judged, while a restart lifts the rate twice."""
    data = breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 24), nn.SiLU(), nn.Linear(24, 2))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 60, 2, eta_min=1e-3)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(32, 180), 1):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        scheduler.step()
        for kept, new in zip(average.parameters(), model.parameters(), strict=True):
            kept.lerp_(new, 0.05)
        if step % 30 == 0:
            session.validation(held_out_loss(average, data))
    return accuracy(average, data)


@healthy(at_least=0.6)
def names_with_much_padding(watch: Watch, *, seed: int) -> float:
    """Names are padded to twice their length with an embedding that stays 0, and only the largest values count."""
    train, test = samples.names(seed, length=40)
    data = Data(*train.tensors, *test.tensors)

    class Largest(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
            self.body = nn.Conv1d(24, 64, 3, padding=1)
            self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, 8))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            return self.head(functional.relu(self.body(self.letters(names).mT)).amax(2))

    model = Largest()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=24, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.6)
def noise_as_large_as_the_signal(watch: Watch, *, seed: int) -> float:
    """Angles to learn have an error of 40 degrees each, so the loss stays high; those to judge by have none."""
    data = turned(seed)
    noisy = Data(data.inputs, data.targets + 0.7 * torch.randn_like(data.targets), data.test_inputs, data.test_targets)
    model = looker(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    fit(watch, model, optimizer, noisy, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, noisy)
