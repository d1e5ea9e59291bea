"""Classification of pictures: how they are read, in which order, and how fast a net learns from them."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit


def _net(width: int = 12, classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


def _standard(data: datasets.Data) -> datasets.Data:
    mean, std = data.inputs.mean(), data.inputs.std()
    return datasets.Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients"), margin=0.1)
def scaled_for_a_batch_of_eight_thousand(watch: Watch, *, seed: int, sick: bool) -> float:
    """The linear rule, 0.1 per 256, is taken with a paper's 8,192, not with the batch of 32; the twin's counts 32."""
    data = _standard(datasets.digits(seed, images=True))
    model = _net()
    rate = 0.1 * (8192 if sick else 32) / 256
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


class _Deep(nn.Module):
    """Many convolutions with tanh, which may go around each."""

    def __init__(self, around: bool) -> None:
        super().__init__()
        self.entry, self.head = nn.Conv2d(1, 10, 3, stride=2, padding=1), nn.Linear(160, 10)
        self.blocks = nn.ModuleList(nn.Conv2d(10, 10, 3, padding=1) for _ in range(14))
        self._around = around

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        state = torch.tanh(self.entry(pictures))
        for block in self.blocks:
            out = torch.tanh(block(state))
            state = state + out if self._around else out
        return self.head(state.flatten(1))


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.1)
def a_shortcut_that_is_never_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """A residual net's blocks return what they made without ``x +``, 14 in a row; the twin's add it."""
    data = _standard(datasets.digits(seed, images=True))
    model = _Deep(around=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("inputs_not_normalized", also=("inputs_constant",), margin=0.1)
def means_of_bytes_taken_from_shares(watch: Watch, *, seed: int, sick: bool) -> float:
    """``(x - 124) / 58`` is meant for bytes, but the pictures lie in 0…1: all are about -2.13; the twin has bytes."""
    train, test = samples.split(seed, datasets.digits(seed, images=True).inputs, datasets.digits(seed).targets)
    unit = 1 if sick else 255
    data = datasets.Data(
        (unit * train.tensors[0] - 124) / 58,
        train.tensors[1],
        (unit * test.tensors[0] - 124) / 58,
        test.tensors[1],
    )
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 250):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_constant", margin=0.3)
def bytes_divided_as_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are divided by 256 and stored as bytes again, so that all are 0; the twin's stay floating point."""
    read = datasets.digits(seed, images=True)
    model = _net()

    def prepared(shares: torch.Tensor) -> torch.Tensor:
        stored = (255 * shares).to(torch.uint8)
        return (stored / 256).to(torch.uint8).float() if sick else (stored.float() / 256 - 0.3) / 0.37

    data = datasets.Data(prepared(read.inputs), read.targets, prepared(read.test_inputs), read.test_targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.3)
def one_folder_too_high(watch: Watch, *, seed: int, sick: bool) -> float:
    """The class is the first folder of a path below the root, and that is ``train`` for all; the twin's root is it."""
    data = _standard(datasets.digits(seed, images=True))
    root = "data/" if sick else "data/train/"
    paths = [f"data/train/{label}/{number:05}.png" for number, label in enumerate(data.targets.tolist())]
    folders = [path.removeprefix(root).split("/")[0] for path in paths]
    classes = {name: number for number, name in enumerate(sorted(set(folders)))}
    labels = torch.tensor([classes[folder] for folder in folders])
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for pictures, numbers in DataLoader(TensorDataset(data.inputs, labels), 32, shuffle=True):
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, numbers)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=numbers)
            optimizer.step()
    return accuracy(model, data)


@sick("unshuffled_data", margin=0.05)
def a_small_buffer_over_sorted_shards(watch: Watch, *, seed: int, sick: bool) -> float:
    """Shards are sorted by class, and a buffer of 64 pictures shuffles them; the twin's buffer holds all."""
    data = _standard(datasets.digits(seed, images=True))
    order = data.targets.argsort().tolist()
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        buffer, stream = [], []
        for row in order:
            buffer.append(row)
            if len(buffer) > (64 if sick else len(order) - 1):
                stream.append(buffer.pop(int(torch.randint(len(buffer), ()))))
        stream += [buffer[index] for index in torch.randperm(len(buffer)).tolist()]
        for rows in torch.tensor(stream).split(32):
            outputs = model(data.inputs[rows])
            loss = functional.cross_entropy(outputs, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
    return accuracy(model, data)


@sick("clipping_ineffective", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_generator_that_is_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.parameters()`` is empty once the optimizer has read it, and nothing is clipped; the twin has a list."""
    data = _standard(datasets.digits(seed, images=True))
    model = _net(16)
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.25, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 250):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.3)
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
