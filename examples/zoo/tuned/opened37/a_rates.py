"""Learning rates, schedules, warm-up and ends of trainings."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened37.a_common import (
    Enlarger,
    Tagger,
    coarse,
    each_place,
    explained,
    lenet,
    numerals,
    right_places,
    tagged,
)


class Residual(nn.Module):
    """Two convolutions whose output is added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns maps of the same shape."""
        return (maps + self.two(self.one(maps).relu())).relu()


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients"), margin=0.05)
def the_rate_of_a_paper_with_another_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A paper's rate of 0.1 for SGD is given to Adam for a small residual network; the twin has 0.001."""
    data = numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), Residual(16), Residual(16), nn.AvgPool2d(2))
    model.append(nn.Flatten()).append(nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 1e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


class Strokes(nn.Module):
    """A small transformer that reads a digit as sixteen squares of four pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.squares, self.places = nn.Conv2d(1, 48, 2, stride=2), nn.Parameter(0.02 * torch.randn(16, 48))
        layer = nn.TransformerEncoderLayer(48, 4, 96, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, 10)."""
        squares = self.squares(pictures).flatten(2).mT + self.places
        return self.head(self.norm(self.layers(squares).mean(1)))


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.05)
def a_rate_for_fine_tuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new vision transformer gets the 2e-5 with which pretrained ones are tuned; the twin has 3e-3."""
    data = numerals(seed)
    model = Strokes()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.05)
def a_plateau_of_accuracy_by_default(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` gets an accuracy but waits for it to fall, as by default; the twin says ``mode="max"``."""
    data = numerals(seed)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="min" if sick else "max", factor=0.1, patience=1
    )
    session = watch(model, optimizer)
    for _ in range(12):
        for pictures, labels in data.batches(64, 20):
            optimizer.zero_grad()
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
        scheduler.step(accuracy(model, data))
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.05)
def a_patience_of_one_look(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training stops at the first look after ten batches that is not better by 0.1; the twin has a patience of five."""
    data = tagged(seed)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    for step, (characters, kinds) in enumerate(data.batches(32, 300), 1):
        optimizer.zero_grad()
        outputs = model(characters)
        loss = each_place(outputs, kinds)
        loss.backward()
        session.step(loss, inputs=characters, outputs=outputs, targets=kinds)
        optimizer.step()
        if step % 10 == 0:
            now = held_out_loss(model, data, each_place)
            session.validation(now)
            best, waited = (now, 0) if now < best - (0.1 if sick else 0.0) else (best, waited + 1)
            if waited >= (1 if sick else 5):
                break
    return right_places(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "dead_units"), margin=0.05)
def the_sum_over_all_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors of all pixels of a batch are summed up with a rate that was chosen for a mean; the twin takes the mean."""
    small, large = coarse(seed)
    data = parted_and_scaled(small, large, seed)
    model = Enlarger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for step, (patches, wanted) in enumerate(data.batches(32, 240), 1):
        outputs = model(patches)
        loss = criterion(outputs, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=patches, outputs=outputs, targets=wanted)
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


def parted_and_scaled(small: torch.Tensor, large: torch.Tensor, seed: int) -> Data:
    """Returns patches with mean 0 and deviation 1 in two parts."""
    small, large = (small - large.mean()) / large.std(), (large - large.mean()) / large.std()
    train, test = samples.split(seed, small, large)
    return Data(*train.tensors, *test.tensors)


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def a_norm_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to a norm of 0.001 before steps of SGD, so nothing moves; the twin clips to 1."""
    data = numerals(seed)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e-3 if sick else 1.0)
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
