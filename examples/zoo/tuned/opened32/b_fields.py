"""A picture as a function of its places, modes, precision and early ends."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import held_out_loss
from examples.zoo.tuned.opened32.b_common import colours, explained, parted, picture


@sick("unshuffled_data", margin=0.05)
def a_picture_line_by_line(watch: Watch, *, seed: int, sick: bool) -> float:
    """Colours are learnt from places in the order of a scan, line by line; the twin draws the places at random."""
    places, values = picture(40)
    test = torch.rand(len(places), generator=torch.Generator().manual_seed(seed)) < 0.2
    data = Data(places[~test], values[~test], places[test], values[test])

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.waves = nn.Buffer(3 * torch.randn(2, 32, generator=torch.Generator().manual_seed(seed)))
            self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))

        def forward(self, places: torch.Tensor) -> torch.Tensor:
            phases = places @ self.waves
            return self.body(torch.cat([phases.sin(), phases.cos()], 1))

    model = Waves()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        order = torch.arange(len(data.inputs)) if sick else torch.randperm(len(data.inputs))
        for rows in order.split(48):
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
    return explained(model, data)


@sick("wrong_mode")
def validated_while_dropout_is_on(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validations are under ``no_grad`` alone, and dropout and batch norm go on training; the twin calls ``eval``."""
    train, test = samples.halves(seed)
    data = Data(*(2 * values - 0.6 for values in (*train.tensors, *test.tensors)))
    layers = [nn.Linear(32, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.4), nn.Linear(96, 32)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    quality = 0.0
    for _ in range(10):
        model.train()
        for upper, lower in data.batches(48, 26):
            optimizer.zero_grad()
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            outputs = model(data.test_inputs)
            session.validation(functional.mse_loss(outputs, data.test_targets).item())
        quality = samples.explained(outputs, data.test_targets)
    return quality


@sick("fp16_underflow", also=("no_update", "vanishing_gradients"), margin=0.1)
def a_small_weight_of_a_loss_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss with a weight of 2e-5 gives gradients too small for float16; the twin has a ``GradScaler``."""
    patches = colours(seed).flatten(1)
    patches = (patches - patches.mean()) / patches.std()
    data = parted(patches, patches, seed)
    model = nn.Sequential(nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 192))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-10)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for patch, whole in data.batches(64, 100):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(patch)
            loss = 2e-5 * functional.mse_loss(outputs.float(), whole)
        scaler.scale(loss).backward()
        session.step(loss, inputs=patch, outputs=outputs, targets=whole)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)


@sick("stopped_too_early", margin=0.05)
def an_improvement_that_must_be_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Stopping asks the validation's loss to fall by 0.1 within two epochs; the twin asks for 0.0005."""
    images = datasets.digits(seed)
    data = parted(2 * images.inputs[:, :32] - 0.6, 2 * images.inputs[:, 32:] - 0.6, seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    best, waited = math.inf, 0
    for _ in range(18):
        for upper, lower in data.batches(48, 22):
            optimizer.zero_grad()
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
        with session.validating():
            validated = held_out_loss(model, data, functional.mse_loss)
        session.validation(validated)
        waited = 0 if validated < best - (0.1 if sick else 5e-4) else waited + 1
        best = min(best, validated)
        if waited >= 2:
            break
    return explained(model, data)
