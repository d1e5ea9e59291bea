"""Rates, schedules, clipping, regularisation and when a training ends."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened33.a_parts import (
    Speller,
    centred,
    explained,
    forever,
    loader,
    masks,
    of,
    of_characters,
    right,
    segmenter,
)


@sick("learning_rate_too_high", also=("exploding_gradients", "saturated_units"), margin=0.03)
def rmsprop_with_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU that reads names has 0.1 under RMSprop, as its SGD had; the twin has 0.002."""
    data = of(samples.names(seed, length=14))
    model = _Reader()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1 if sick else 2e-3)
    session = watch(model, optimizer)
    for codes, scripts in forever(data, 32, 220):
        optimizer.zero_grad(set_to_none=True)
        logits = model(codes)
        loss = functional.cross_entropy(logits, scripts)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=scripts)
        optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def the_rate_of_adam_in_plain_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam was changed for SGD without momentum and its rate of 0.0003 was kept; the twin has 0.1."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-4 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, validate_every=40)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.03)
def a_plateau_of_what_should_fall(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau(mode="max")`` is given a loss, which never rises, so the rate falls; the twin has "min"."""
    data = of(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max" if sick else "min", factor=0.1, patience=1 if sick else 3
    )
    session = watch(model, optimizer)
    for _ in range(22):
        for rows, worst in loader(data, 24):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, worst)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=worst)
            optimizer.step()
        validated = held_out_loss(model, data, functional.mse_loss)
        session.validation(validated)
        schedule.step(validated)
    return explained(model, data)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.05)
def patience_counted_while_it_improves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping counts validations that improve, and so ends after three; the twin counts those that do not."""
    data = datasets.text(seed, length=16, count=1600)
    model = Speller(48, nn.GRU)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    best, waited = math.inf, 0
    for _ in range(14):
        for codes, following in loader(data, 48):
            logits = model(codes)
            loss = of_characters(logits, following)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
        validated = held_out_loss(model, data, of_characters)
        session.validation(validated)
        improved = validated < best
        best = min(best, validated)
        waited = waited + 1 if improved is sick else 0
        if waited == 3:
            break
    return right(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def each_value_clipped_to_almost_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` with 1e-5 leaves SGD no gradient to go by; the twin clips each value to 0.1."""
    data = masks(seed)
    model = segmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    session = watch(model, optimizer)
    for images, wanted in forever(data, 32, 150):
        logits = model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-5 if sick else 0.1)
        session.step(loss, inputs=images, outputs=logits, targets=wanted)
        optimizer.step()
    found = predicted(model, data.test_inputs) > 0
    return _share(found, data.test_targets)


@sick("over_regularized", margin=0.1)
def the_size_of_all_weights_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """A penalty of 0.02 on the sum of all absolute weights outweighs the loss; the twin has 0.00002."""
    data = of(samples.standardised(samples.lines(seed), 0))
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for counts, files in forever(data, 48, 180):
        logits = model(counts)
        size = torch.stack([weight.abs().sum() for weight in model.parameters()]).sum()
        loss = functional.cross_entropy(logits, files) + (0.02 if sick else 2e-5) * size
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=files)
        optimizer.step()
    return accuracy(model, data)


class _Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.rnn, self.head = nn.GRU(24, 40, batch_first=True), nn.Linear(40, len(samples.SCRIPTS))
        self.drop = nn.Dropout(0.3)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.rnn(self.embed(codes))[0].amax(1)))


def _share(found: torch.Tensor, wanted: torch.Tensor) -> float:
    both, any_of = (found & (wanted > 0.5)).sum(), (found | (wanted > 0.5)).sum()
    return (both / any_of).item()
