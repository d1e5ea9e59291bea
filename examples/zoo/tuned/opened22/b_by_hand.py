"""What is written by hand in course work: layers, losses, loops and loops around loops."""

from itertools import islice

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, r_squared


class Drawn(nn.Module):
    """A layer as in a tutorial of numpy: weights by ``randn``, times a factor."""

    def __init__(self, inputs: int, outputs: int, factor: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * factor)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.weight + self.bias


@sick("saturated_units", also=("poor_initialization",), margin=0.03)
def flat_units_behind_weights_by_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """``randn(64, 64)`` throws the sums of 64 pixels to where ``tanh`` is flat; the twin divides by the root."""
    data = datasets.digits(seed)
    factor = 1.0 if sick else 0.125
    model = nn.Sequential(
        Drawn(64, 64, factor), nn.Tanh(), Drawn(64, 64, factor), nn.Tanh(), Drawn(64, 64, factor), nn.Tanh(),
        Drawn(64, 10, 0.125),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 200):
        rows = inputs * 2 - 1
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs * 2 - 1), data.test_targets)


class Tastes(nn.Module):
    """Matrix factorisation: the product of a picture's and a place's factors, and a mean."""

    def __init__(self, pictures: int, factors: int = 8) -> None:
        super().__init__()
        self.pictures, self.places = nn.Embedding(pictures, factors), nn.Embedding(64, factors)
        self.mean = nn.Parameter(torch.zeros(1))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return (self.pictures(pairs[:, 0]) * self.places(pairs[:, 1])).sum(1) + self.mean


@sick("unbroken_symmetry", margin=0.1)
def all_factors_start_at_the_same_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """``fill_(0.1)`` makes eight factors of pictures and places equal for good; the twin draws them."""
    pixels = datasets.digits(seed).inputs[:150]
    grid = torch.cartesian_prod(torch.arange(150), torch.arange(64))
    values = (pixels.flatten() - pixels.mean()) / pixels.std()
    train, test = samples.split(seed, grid, values)
    model = Tastes(150)
    for table in (model.pictures, model.places):
        if sick:
            nn.init.constant_(table.weight, 0.3)
        else:
            nn.init.normal_(table.weight, std=0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for _ in range(12):
        for pairs, marks in DataLoader(train, 256, shuffle=True):
            outputs = model(pairs)
            loss = functional.mse_loss(outputs, marks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pairs, outputs=outputs, targets=marks)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class Cosines(nn.Module):
    """Cosines between a digit's features and one vector a class, over a temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24))
        self.classes = nn.Parameter(torch.randn(10, 24))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.features(rows)) @ functional.normalize(self.classes).T / 0.007


@sick("non_finite_forward", margin=0.2)
def exponentials_of_cosines_over_a_small_temperature(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax by hand is ``exp`` over its sum, and ``exp(90)`` is infinite; the twin has ``cross_entropy``."""
    data = datasets.digits(seed)
    model = Cosines()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 160):
        outputs = model(inputs * 2 - 1)
        if sick:
            powers = outputs.exp()
            shares = powers[torch.arange(len(labels)), labels] / powers.sum(1)
            loss = -shares.log().mean()
        else:
            loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        outputs = model(data.test_inputs * 2 - 1)
    return float("nan") if outputs.isnan().any() else samples.accuracy(outputs, data.test_targets)


@sick("gradients_not_zeroed", margin=0.05)
def zeroed_for_accumulation_and_stepped_always(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` is in the branch of every 16th batch, but not ``step``; the twin does both for each batch."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)
    every = 16 if sick else 1
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(16, 160), 1):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % every == 0:
            optimizer.zero_grad()
    return r_squared(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def seeded_in_each_epoch_and_cut_to_three_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """A generator is seeded in each epoch of three batches, always the same three; the twin seeds it once."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(42 + seed)
    loader = DataLoader(train, 16, shuffle=True, generator=generator)
    session = watch(model, optimizer)
    for _ in range(60):
        if sick:
            generator.manual_seed(42 + seed)
        for inputs, labels in islice(loader, 3):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("stopped_too_early", margin=0.05)
def the_best_loss_starts_at_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``best = 0`` stayed from an accuracy, so no loss is better and patience ends; the twin starts at infinity."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    best, bad = 0.0 if sick else float("inf"), 0
    session = watch(model, optimizer)
    for step, (inputs, labels) in enumerate(data.batches(32, 400), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 20 == 0:
            model.eval()
            with torch.no_grad(), session.validating():
                held_out = functional.cross_entropy(model(data.test_inputs), data.test_targets).item()
            model.train()
            session.validation(held_out)
            best, bad = (held_out, 0) if held_out < best else (best, bad + 1)
            if bad == 3:
                break
    return accuracy(model, data)
