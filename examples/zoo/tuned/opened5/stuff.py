"""What a training is fed with: scales, gaps, constants, order and repetition."""

from itertools import cycle, islice

import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    VOCABULARY,
    VOWELS,
    Dilated,
    chunks,
    dense,
    explained,
    parted,
    scenery,
    series,
    turned,
    words,
)


@sick("inputs_not_normalized")
def places_counted_in_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network of sines takes places from -1 to 1; it gets columns and rows of the whole photograph."""

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.inner, self.out = nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 1)

        def forward(self, places: torch.Tensor) -> torch.Tensor:
            return self.out(self.inner((12 * self.enter(places)).sin()).sin())

    data = scenery(seed)
    if sick:
        data = Data(data.inputs * 80 + 250, data.targets, data.test_inputs * 80 + 250, data.test_targets)
    model = Waves()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=80, loss_function=F.mse_loss, validate_every=50)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_not_normalized")
def sensor_counts_into_a_dilated_network(watch: Watch, *, seed: int, sick: bool) -> float:
    """Brightness arrives as twelve-bit counts around 1900; only the value to forecast is standardised."""
    data = series(seed)
    if sick:
        data = Data(data.inputs * 1100 + 1900, data.targets, data.test_inputs * 1100 + 1900, data.test_targets)
    model = Dilated(20, act=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for past, following in data.batches(40, 220):
        optimizer.zero_grad()
        guess = model(past)
        loss = F.mse_loss(guess, following)
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=following)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant")
def erased_from_edge_to_edge(watch: Watch, *, seed: int, sick: bool) -> float:
    """A square of 16 pixels is erased at random, as for photographs; these pictures are 8 pixels wide."""
    data, side = turned(seed), 16 if sick else 3
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(128, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for images, quarters in data.batches(50, 200):
        erased = images.clone()
        for image in erased:
            top, left = (int(torch.randint(max(1, 9 - side), ())) for _ in range(2))
            image[:, top : top + side, left : left + side] = 0.5
        logits = model(erased)
        loss = F.cross_entropy(logits, quarters)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=erased, outputs=logits, targets=quarters)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_constant")
def padded_on_the_side_that_is_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """Words are padded on the left to 40 letters, and the first 16 are kept: padding alone."""
    data = words(seed)

    def cut(codes: torch.Tensor) -> torch.Tensor:
        long = F.pad(codes, (24, 0))
        return long[:, :16] if sick else long[:, -16:]

    data = Data(cut(data.inputs), data.targets, cut(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Embedding(ALPHABET, 12), nn.Flatten(), *dense(192, 48, VOWELS, act=nn.ELU))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, validate_every=50)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def squares_beyond_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features and their squares are stored in float16, where an area of 256 has an infinite square."""
    table = sets.load_breast_cancer()
    values = torch.from_numpy(table.data).float()[:, :10]
    stored = torch.cat([values, values.square()], 1).to(torch.float16 if sick else torch.float64).float()
    data = parted(seed, stored, torch.from_numpy(table.target))
    scale = data.inputs.abs().nan_to_num(posinf=65504.0).amax(0)
    data = Data(data.inputs / scale, data.targets, (data.test_inputs / scale).nan_to_num(posinf=1.0), data.test_targets)
    model = dense(20, 40, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",))
def missing_samples_of_a_sensor(watch: Watch, *, seed: int, sick: bool) -> float:
    """One value in two thousand was not read and is NaN; the last good one should stand in for it."""
    data = series(seed)
    past = data.inputs.clone()
    past[torch.rand(past.shape, generator=torch.Generator().manual_seed(seed)) < 5e-4] = torch.nan
    if not sick:
        past = torch.where(past.isnan(), past.roll(1, -1), past).nan_to_num()
    data = Data(past, data.targets, data.test_inputs, data.test_targets)
    model = Dilated(16)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (past, following) in enumerate(data.batches(50, 180), 1):
        guess = model(past)
        loss = F.mse_loss(guess, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=following)
        optimizer.step()
        if step % 60 == 0:
            session.validation(held_out_loss(model, data, F.mse_loss))
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("unshuffled_data")
def quarters_joined_one_behind_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four datasets, one for each turn, in a ``ConcatDataset`` whose loader keeps the order."""
    data = turned(seed)
    parts = [TensorDataset(data.inputs[data.targets == one], data.targets[data.targets == one]) for one in range(4)]
    loader = DataLoader(ConcatDataset(parts), batch_size=40, shuffle=not sick)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(384, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, quarters in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, quarters)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=quarters)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("unshuffled_data")
def books_read_from_the_first_to_the_last(watch: Watch, *, seed: int, sick: bool) -> float:
    data = chunks(seed, each=500)
    order = data.targets.argsort(stable=True)
    model = nn.Sequential(nn.EmbeddingBag(VOCABULARY, 24, padding_idx=0), *dense(24, 32, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for _ in range(5):
        for rows in (order if sick else order[torch.randperm(len(order))]).split(32):
            optimizer.zero_grad()
            logits = model(data.inputs[rows])
            loss = F.cross_entropy(logits, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=data.targets[rows])
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",))
def two_batches_of_a_quick_test(watch: Watch, *, seed: int, sick: bool) -> float:
    """``islice(loader, 2)`` was for a quick test of the code, and ``cycle`` repeats what it has seen."""
    data = words(seed)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=16, shuffle=True)
    batches = cycle(islice(loader, 2 if sick else len(loader)))
    model = nn.Sequential(nn.Embedding(ALPHABET, 8), nn.Flatten(), *dense(128, 48, VOWELS))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for codes, kinds in islice(batches, 240):
        logits = model(codes)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)
