"""What holds a training back: penalties, clipping, accumulation; and what nobody held back."""

from itertools import islice

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits, wine
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened5.material import (
    Dilated,
    Factors,
    Speller,
    centres,
    correct,
    dense,
    enlarged,
    explained,
    in_deviations,
    pixels,
    series,
    turned,
    words,
)


@sick("over_regularized")
def smoothness_that_wipes_pictures_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """The weight of the total variation is for pixels from 0 to 255 in its square, and the pixels are from 0 to 1."""
    data = enlarged(seed)
    model = nn.Sequential(
        nn.ConvTranspose2d(1, 16, 2, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    weight = 20.0 if sick else 1e-3

    def penalised(guess: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        variation = guess.diff(dim=2).abs().mean() + guess.diff(dim=3).abs().mean()
        return F.mse_loss(guess, high) + weight * variation

    fit(watch, model, optimizer, data, steps=160, batch_size=32, loss_function=penalised, validate_every=40)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("over_regularized")
def share_to_keep_taken_for_share_to_drop(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ported from a library whose dropout is told what to keep: 0.92."""
    data = words(seed)
    keep = 0.92
    letters = nn.Embedding(28, 24, padding_idx=0)
    model = nn.Sequential(
        letters, nn.Flatten(), nn.Dropout(keep if sick else 1 - keep), nn.Linear(384, 64), nn.ReLU(),
        nn.Dropout(keep if sick else 1 - keep), nn.Linear(64, 4),
    )  # fmt: skip
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=40, validate_every=40)
    return accuracy(model, data)


@sick("over_regularized")
def absolute_weights_outweigh_the_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """An L1 penalty that was found for a regression with four coefficients, on a network with two thousand."""
    data = series(seed)
    model = Dilated(20)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for past, following in data.batches(50, 220):
        guess = model(past)
        size = sum(weight.abs().sum() for weight in model.parameters())
        loss = F.mse_loss(guess, following) + (0.3 if sick else 1e-5) * size
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=following)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("overfitting", margin=0.1)
def a_vector_of_sixty_for_each_page(watch: Watch, *, seed: int, sick: bool) -> float:
    """More numbers than ratings, and nothing that holds them: the known ones are learnt by heart."""
    data = pixels(seed, count=7500)
    model = Factors(rank=60 if sick else 3, spread=0.15 if sick else 0.3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.0 if sick else 0.5)
    session = watch(model, optimizer)
    for step, (pairs, ink) in enumerate(data.batches(300, 260), 1):
        guess = model(pairs)
        loss = F.mse_loss(guess, ink)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pairs, outputs=guess, targets=ink)
        optimizer.step()
        if step % 20 == 0:
            with session.validating():
                session.validation(held_out_loss(model, data, F.mse_loss))
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("overfitting", margin=0.05)
def ninety_words_read_again_and_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """The file of words was cut for a quick look; the reader soon knows each of them."""
    data = words(seed)
    if sick:
        data = type(data)(data.inputs[:90], data.targets[:90], data.test_inputs, data.test_targets)
    model = Speller(nn.LSTM, 48)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=45, validate_every=20)
    return accuracy(model, data)


def limited(parameters: list[nn.Parameter], limit: float) -> None:
    """Shrinks each gradient to a largest norm, one by one."""
    for parameter in parameters:
        if parameter.grad is not None:
            norm = parameter.grad.norm()
            if norm > limit:
                parameter.grad.mul_(limit / norm)


@sick("clipping_too_strong")
def limit_from_the_line_above(watch: Watch, *, seed: int, sick: bool) -> float:
    """The limit is 0.0005: that is the decay, which stands one line above it in the config."""
    data = turned(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ELU(), nn.Conv2d(16, 16, 3), nn.ELU(), nn.Flatten(), nn.Linear(256, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    session = watch(model, optimizer)
    for images, quarters in data.batches(50, 200):
        logits = model(images)
        loss = F.cross_entropy(logits, quarters)
        optimizer.zero_grad()
        loss.backward()
        limited(list(model.parameters()), 5e-4 if sick else 2.0)
        session.step(loss, inputs=images, outputs=logits, targets=quarters)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong")
def limit_for_the_sum_of_absolute_values(watch: Watch, *, seed: int, sick: bool) -> float:
    """``norm_type=1`` adds up six thousand values: a limit of 0.05 that would fit one of them leaves nothing."""
    data = centres(seed)
    model = dense(24, 72, 56, 3, act=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    session = watch(model, optimizer)
    for near, colour in data.batches(32, 220):
        optimizer.zero_grad()
        guess = model(near)
        loss = 4 * F.mse_loss(guess, colour)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05 if sick else 1.0, norm_type=1 if sick else 2)
        session.step(loss, inputs=near, outputs=guess, targets=colour)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Repeated(nn.Module):
    """A recurrence with ReLU over a series (N, features, length)."""

    def __init__(self, features: int, outputs: int, *, width: int = 48, gain: float = 1.2) -> None:
        super().__init__()
        self.cell = nn.RNN(features, width, nonlinearity="relu", batch_first=True)
        nn.init.orthogonal_(self.cell.weight_hh_l0, gain)
        self.out = nn.Linear(width, outputs)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(past.mT)[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients",))
def norm_that_is_only_logged(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max_norm=inf`` is the trainer's default, which logs the norm and limits nothing."""
    data = digits(seed)
    model = Repeated(4, 10)
    rows = type(data)(
        data.inputs.view(-1, 16, 4).mT, data.targets, data.test_inputs.view(-1, 16, 4).mT, data.test_targets
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session, norms = watch(model, optimizer), []
    for ink, labels in rows.batches(48, 260):
        logits = model(ink)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), float("inf") if sick else 0.3)))
        session.step(loss, inputs=ink, outputs=logits, targets=labels)
        optimizer.step()
    return correct(predicted(model, rows.test_inputs), rows.test_targets)


class Trainer:
    """Takes a step after so many micro-batches."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, parts: int, *, averaged: bool) -> None:
        self.model, self.optimizer, self.parts, self.averaged = model, optimizer, parts, averaged

    def micro(self, codes: torch.Tensor, kinds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.model(codes)
        loss = F.cross_entropy(logits, kinds)
        (loss / self.parts if self.averaged else loss).backward()
        return logits, loss


@sick("accumulation_not_averaged")
def trainer_that_adds_twelve_micro_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    data = words(seed)
    model = nn.Sequential(nn.Embedding(28, 16, padding_idx=0), nn.Flatten(), *dense(256, 64, 4, act=nn.Tanh))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    trainer = Trainer(model, optimizer, 12, averaged=not sick)
    session = watch(model, optimizer)
    micro_batches = data.batches(8, 12 * 60)
    while parts := list(islice(micro_batches, 12)):
        optimizer.zero_grad()
        for codes, kinds in parts:
            logits, loss = trainer.micro(codes, kinds)
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged")
def each_vineyard_for_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten groups of a table, with a backward pass each before one step; the division by ten is missing."""
    data = in_deviations(wine(seed, raw=True))
    model = dense(13, 40, 40, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(80):
        optimizer.zero_grad()
        groups = torch.randperm(len(data.inputs)).chunk(10)
        for group in groups:
            logits = model(data.inputs[group])
            loss = F.cross_entropy(logits, data.targets[group])
            if not sick:
                loss = loss / len(groups)
            loss.backward()
        session.step(loss, inputs=data.inputs[group], outputs=logits, targets=data.targets[group])
        optimizer.step()
    return accuracy(model, data)
