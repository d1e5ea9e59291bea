"""Masks of strokes, and pictures of which a part is missing."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, held_out_loss
from examples.zoo.tuned.opened34.b_common import explained, masker, overlap, parted, squares, strokes

bce = functional.binary_cross_entropy_with_logits


@sick("learning_rate_too_low", margin=0.1)
def sgd_with_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD gets the 0.0003 at which Adam trained the same network; the twin has a rate of SGD's own."""
    data = strokes(seed)
    model = masker()
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-4 if sick else 0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=bce, validate_every=40)
    return overlap(model, data)


@sick("labels_unrelated", margin=0.1)
def two_loaders_that_shuffle_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures and masks come from two loaders, each of which shuffles for itself; the twin has one for both."""
    data = strokes(seed)
    model = masker()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        order = torch.randperm(len(data.inputs))
        other = torch.randperm(len(data.inputs)) if sick else order
        for chosen, masked in zip(order.split(32), other.split(32), strict=True):
            pictures, masks = data.inputs[chosen], data.targets[masked]
            optimizer.zero_grad()
            outputs = model(pictures)
            loss = bce(outputs, masks)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    return overlap(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def a_thousandth_for_the_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` to 0.001 leaves SGD a thousandth of its way; the twin clips to 1."""
    data = strokes(seed)
    model = masker()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, masks in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = bce(outputs, masks)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
        optimizer.step()
    return overlap(model, data)


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"), margin=0.1)
def a_warm_up_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's factor is ``step // 400``, which is 0 until it ends; the twin divides, in 40 steps."""
    data = strokes(seed)
    model = masker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def factor(step: int) -> float:
        return min(1, (step + 1) // 400) if sick else min(1, (step + 1) / 40)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=bce, scheduler=scheduler)
    return overlap(model, data)


def gaps(seed: int) -> Data:
    """Returns patches (N, 1, 8, 8) with a hole of 4 by 4 in their middle, and the patches."""
    whole = squares(seed)
    holes = whole.clone()
    holes[:, :, 2:6, 2:6] = 0
    return parted(holes, whole, seed)


def filled(model: nn.Module, data: Data) -> float:
    """Returns the share of the variance within the hole that is explained."""
    crop = nn.Sequential(model, nn.Unflatten(1, (1, 8, 8)), _Middle())
    return explained(crop, Data(data.inputs, data.targets, data.test_inputs, _Middle()(data.test_targets)))


class _Middle(nn.Module):
    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the hole of each picture (N, 16)."""
        return pictures[:, 0, 2:6, 2:6].flatten(1)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def errors_of_all_holes_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """The squared errors within the holes of a batch are added, at a rate for their mean; the twin takes the mean."""
    data = gaps(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hole = torch.zeros(8, 8)
    hole[2:6, 2:6] = 1
    session = watch(model, optimizer)
    for pictures, whole in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(pictures)
        errors = (outputs - whole.flatten(1)).square() * hole.flatten()
        loss = errors.sum() if sick else errors.sum() / (len(pictures) * hole.sum())
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=whole)
        optimizer.step()
    return filled(model, data)


@sick("poor_initialization", also=("exploding_gradients",), margin=0.05)
def convolutions_from_a_normal_distribution(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights are drawn with a deviation of 1, as if Kaiming's factor were no matter; the twin uses Kaiming's."""
    noisy = squares(seed)
    data = parted(noisy + 0.3 * torch.randn_like(noisy), noisy, seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight) if sick else nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("vanishing_gradients", also=("poor_initialization", "saturated_units"), margin=0.1)
def an_autoencoder_of_eight_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each layer of a deep autoencoder ends in a sigmoid, through which little comes back; the twin has GELU."""
    patches = squares(seed).flatten(1)
    data = parted(patches, patches, seed)
    kind = nn.Sigmoid if sick else nn.GELU
    sizes = [64, 64, 48, 32, 16, 32, 48, 64]
    layers: list[nn.Module] = []
    for inward, outward in pairwise(sizes):
        layers += [nn.Linear(inward, outward), kind()]
    model = nn.Sequential(*layers, nn.Linear(64, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(64, 250)):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 50 == 49:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)
