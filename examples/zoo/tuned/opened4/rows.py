"""What enters a network: scale, constants, gaps, order and repetition of the data."""

from itertools import cycle

import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, breast_cancer, digits, wine
from examples.zoo.loops import accuracy, binary_accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    RowReader,
    cells,
    convnet,
    explained,
    f1,
    held_back,
    mlp,
    scaled,
    scanlines,
    snippets,
)  # fmt: skip


@sick("inputs_not_normalized")
def chemistry_in_its_own_units(watch: Watch, *, seed, sick):
    """Proline is in the hundreds and the hue about one; the scaler was fitted and never applied."""
    data = wine(seed, raw=sick)
    model = mlp(13, 24, 24, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("inputs_not_normalized")
def measurements_straight_into_a_tanh_regression(watch: Watch, *, seed, sick):
    data = cells(seed)
    both = scaled(data, targets=True)
    if sick:
        both = Data(data.inputs, both.targets, data.test_inputs, both.test_targets)
    model = mlp(20, 32, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, both, steps=200, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return r_squared(model, both)


@sick("inputs_not_normalized")
def bytes_of_pictures_into_a_recurrent_network(watch: Watch, *, seed, sick):
    """The strips were standardised in the notebook; the script hands the GRU bytes from 0 to 255."""
    data = scanlines(seed, length=8)
    if sick:
        data = Data(data.inputs * 70 + 120, data.targets, data.test_inputs * 70 + 120, data.test_targets)
    model = RowReader(nn.GRU, 6, 24, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=40, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant")
def integer_division_of_bytes(watch: Watch, *, seed, sick):
    pixels = torch.from_numpy(sets.load_digits().images).to(torch.uint8)[:, None] * 15
    images = (pixels // 255).float() if sick else pixels.float() / 255
    data = held_back(seed, images, torch.from_numpy(sets.load_digits().target))
    model = convnet(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for batch, labels in data.batches(50, 150):
        optimizer.zero_grad()
        logits = model(batch)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_constant")
def vocabulary_that_knows_no_character(watch: Watch, *, seed, sick):
    """The vocabulary maps strings, and is asked for integers: every character is the unknown one."""
    data = snippets(seed)
    vocabulary = {str(code) if sick else code: code + 1 for code in range(97)}

    def encode(codes):
        return torch.tensor([[vocabulary.get(code, 0) for code in row] for row in codes.tolist()])

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(99, 32)
            self.network = nn.Sequential(nn.Conv1d(32, 48, 4), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
            self.head = nn.Linear(48, 6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.network(self.embedding(codes).transpose(1, 2)))

    data = Data(encode(data.inputs), data.targets, encode(data.test_inputs), data.test_targets)
    model = Bag()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=140, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits, validate_every=35,
    )  # fmt: skip
    return f1(predicted(model, data.test_inputs), data.test_targets)


@sick("non_finite_inputs")
def pixels_that_never_vary_are_standardised(watch: Watch, *, seed, sick):
    """The corners of the digits are always 0: their deviation is 0, and 0 / 0 is NaN."""
    data = digits(seed)
    mean, std = data.inputs.mean(0), data.inputs.std(0)
    floor = 0.0 if sick else 1e-3
    data = Data(
        (data.inputs - mean) / std.clamp(min=floor), data.targets,
        ((data.test_inputs - mean) / std.clamp(min=floor)).clamp(-5, 5), data.test_targets,
    )  # fmt: skip
    model = mlp(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120)
    return accuracy(model, data)


@sick("non_finite_inputs")
def gaps_of_a_table_left_in(watch: Watch, *, seed, sick):
    """Three per mille of the cells are missing, as in any export."""
    data = breast_cancer(seed)
    gaps = torch.rand(data.inputs.shape, generator=torch.Generator().manual_seed(seed)) < 0.003
    rows = data.inputs.masked_fill(gaps, torch.nan)
    data = Data(rows if sick else rows.nan_to_num(0.0), data.targets.float(), data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(30, 32), nn.GELU(), nn.Linear(32, 1), nn.Flatten(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(
        watch, model, optimizer, data, steps=120, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    return binary_accuracy(model, data)


@sick("unshuffled_data")
def digits_in_the_order_of_their_folders(watch: Watch, *, seed, sick):
    """The files come folder by folder, and ``shuffle=True`` is missing."""
    data = digits(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = mlp(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows, labels in loader:
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
        with session.validating():
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("unshuffled_data")
def table_exported_by_rising_target(watch: Watch, *, seed, sick):
    data = scaled(cells(seed), targets=True)
    order = data.targets[:, 0].argsort()
    model = mlp(20, 32, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(15):
        for rows in (order if sick else torch.randperm(len(order))).split(24):
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
    return r_squared(model, data)


@sick("duplicated_data")
def seed_set_in_every_step(watch: Watch, *, seed, sick):
    """``torch.manual_seed`` for reproducible noise stands in front of the line that draws the batch."""
    data = digits(seed)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(150):
        if sick:
            torch.manual_seed(seed)
        rows = torch.randint(len(data.inputs), (32,))
        noisy = data.inputs[rows] + 0.05 * torch.randn(32, 64)
        logits = model(noisy)
        loss = functional.cross_entropy(logits, data.targets[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=logits, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data")
def new_iterator_for_each_step(watch: Watch, *, seed, sick):
    """``next(iter(loader))`` begins anew every time, and the loader does not shuffle."""
    data = digits(seed)
    train, test = data.inputs, data.test_inputs
    loader = DataLoader(TensorDataset(train), batch_size=16, shuffle=not sick)
    batches = cycle(loader)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(220):
        (rows,) = next(iter(loader)) if sick else next(batches)
        outputs = model(rows)
        loss = functional.mse_loss(outputs, rows)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    return explained(predicted(model, test), test)
