"""Trainings that tell from a small patch of which photograph it is, or how bright it is."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened19.a_stock import coloured

_MEAN, _STD = (torch.tensor(values).view(1, 3, 1, 1) for values in ((0.45, 0.45, 0.4), (0.27, 0.28, 0.3)))


def _net(outputs: int = 2, channels: int = 3, width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(2 * width, outputs),
    )  # fmt: skip


def _scaled(pictures: torch.Tensor) -> torch.Tensor:
    return (pictures.float() / 255 - _MEAN) / _STD


@sick("inputs_constant", margin=0.1)
def each_pixel_less_the_mean_of_its_channels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Grey patches are centred by ``x - x.mean(1, keepdim=True)``, which takes each of its only channel: zeros.

    The twin takes the mean of all patches and pixels, and the deviation.
    """
    train, test = coloured(seed)
    model = _net(channels=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)

    def grey(pictures: torch.Tensor) -> torch.Tensor:
        values = pictures.float().mean(1, keepdim=True) / 255
        centred = values - (values.mean(1, keepdim=True) if sick else 0.43)
        return centred / 0.27

    for _ in range(8):
        for pictures, labels in DataLoader(train, 50, shuffle=True):
            inputs = grey(pictures)
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(grey(test.tensors[0])), test.tensors[1])


@sick("inputs_not_normalized", also=("learning_rate_too_high", "dead_units"), margin=0.05)
def a_channel_of_sixteen_bits(watch: Watch, *, seed: int, sick: bool) -> float:
    """A camera's third channel has sixteen bits, and is stacked as it is to two from 0 to 1; the twin scales it."""
    train, test = coloured(seed)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)

    def stacked(pictures: torch.Tensor) -> torch.Tensor:
        inputs = _scaled(pictures)
        if sick:
            inputs[:, 2] = pictures[:, 2].float() * 257
        return inputs

    for _ in range(8):
        for pictures, labels in DataLoader(train, 50, shuffle=True):
            inputs = stacked(pictures)
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(stacked(test.tensors[0])), test.tensors[1])


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.2)
def contrast_of_blank_patches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each patch is divided by its own deviation, which is 0 where the sky is overexposed; the twin adds a little."""
    train, test = coloured(seed)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)

    def contrasted(pictures: torch.Tensor) -> torch.Tensor:
        values = (pictures.float() * 1.6).clamp(max=255) / 255
        spread = values.std((1, 2, 3), keepdim=True)
        return (values - values.mean((1, 2, 3), keepdim=True)) / (spread if sick else spread + 0.02)

    inputs, others = contrasted(train.tensors[0]), contrasted(test.tensors[0])
    for _ in range(8):
        for batch, labels in DataLoader(TensorDataset(inputs, train.tensors[1]), 50, shuffle=True):
            outputs = model(batch)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(others), test.tensors[1])


@sick("single_class_labels", margin=0.2)
def bins_in_another_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """Brightness, from 0 to 1, is put into bins whose bounds are in bytes, so all of it is dark; the twin's fit."""
    train, test = coloured(seed)
    bounds = torch.tensor([64.0, 110.0, 160.0]) / 255

    def bins(pictures: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.bucketize(pictures[:, :, 2:6, 2:6].float().mean((1, 2, 3)) / 255, bounds * scale)

    labels = bins(train.tensors[0], 255 if sick else 1)
    model = _net(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(9):
        for batch, wanted in DataLoader(TensorDataset(_scaled(train.tensors[0]), labels), 50, shuffle=True):
            outputs = model(batch)
            loss = functional.cross_entropy(outputs, wanted)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=outputs, targets=wanted)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(_scaled(test.tensors[0])), bins(test.tensors[0], 1))


@sick("frozen_parameters", margin=0.03)
def a_copy_of_what_was_frozen(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net with a body drawn anew is copied from a frozen one, and its body stays frozen; the twin thaws the copy."""
    train, test = coloured(seed)
    template = _net().requires_grad_(False)
    model = copy.deepcopy(template)
    for module in model:
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    (model[-1] if sick else model).requires_grad_(True)
    optimizer = torch.optim.Adam((weight for weight in model.parameters() if weight.requires_grad), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, labels in DataLoader(train, 50, shuffle=True):
            inputs = _scaled(pictures)
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(_scaled(test.tensors[0])), test.tensors[1])
