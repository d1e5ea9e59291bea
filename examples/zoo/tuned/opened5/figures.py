"""Numbers that leave the range of their type, forwards and backwards."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened5.material import (
    VOCABULARY,
    centres,
    chunks,
    correct,
    dense,
    enlarged,
    explained,
)


@sick("non_finite_forward")
def rows_of_padding_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """A chunk that has rare words only is masked from end to end, and its softmax is of minus infinity alone."""

    class Focus(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(VOCABULARY, 24)
            self.score, self.out = nn.Linear(24, 1), dense(24, 24, 5)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            values = self.words(codes)
            hidden = (codes <= 1)[..., None]
            scores = self.score(values).masked_fill(hidden, -torch.inf if sick else -1e4)
            return self.out((scores.softmax(1) * values).sum(1))

    data = chunks(seed)
    data.inputs[::97] = 1  # comments in another language
    model = Focus()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for codes, books in data.batches(40, 180):
        optimizer.zero_grad()
        logits = model(codes)
        loss = F.cross_entropy(logits, books)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=books)
        optimizer.step()
    return correct(predicted(model, data.test_inputs), data.test_targets)


@sick("non_finite_forward")
def mean_over_no_pixel(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each row of a digit is described by the mean place of its ink; a row without ink divides zero by zero."""

    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filters, self.body = nn.Conv2d(1, 6, 3, padding=1), dense(48, 48, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            ink = self.filters(images).relu() * (images > 0)
            total = ink.sum(3)
            place = (ink * torch.linspace(-1, 1, 8)).sum(3)
            return self.body((place / (total if sick else total + 0.1)).flatten(1))

    data, model = digits(seed, images=True), Places()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=48)
    return correct(predicted(model, data.test_inputs), data.test_targets)


@sick("non_finite_backward")
def logarithm_behind_a_where(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where(x > 0.1, x.log(), -2.3)`` is finite, but the branch not taken has an infinite gradient times zero."""

    class Logs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain, self.out = nn.Parameter(torch.ones(64)), dense(64, 48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            values = rows * self.gain
            if sick:
                return self.out(torch.where(values > 0.1, values.log(), -2.3))
            return self.out(values.clamp(min=0.1).log())

    data, model = digits(seed), Logs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    fit(watch, model, optimizer, data, steps=200, batch_size=40)
    return correct(predicted(model, data.test_inputs), data.test_targets)


@sick("non_finite_backward")
def length_of_a_slope_that_is_flat(watch: Watch, *, seed: int, sick: bool) -> float:
    """A term for edges takes the root of squared slopes; the first guess is flat, and the root's gradient is 0 / 0."""
    data = enlarged(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
    nn.init.zeros_(model[2].weight)
    nn.init.constant_(model[2].bias, 0.4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def edges(images: torch.Tensor) -> torch.Tensor:
        down, right = images.diff(dim=2)[..., :-1], images.diff(dim=3)[:, :, :-1]
        return (down.square() + right.square() + (0.0 if sick else 1e-6)).sqrt()

    session = watch(model, optimizer)
    for low, high in data.batches(32, 180):
        guess = model(low)
        loss = F.mse_loss(guess, high) + 0.05 * F.l1_loss(edges(guess), edges(high))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=low, outputs=guess, targets=high)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("fp16_underflow")
def scale_of_one_to_be_safe(watch: Watch, *, seed: int, sick: bool) -> float:
    """The scaler begins at 1 and hardly grows, since somebody feared overflows; the loss has a weight of 1e-5."""
    data = centres(seed)
    model = dense(24, 64, 64, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0 if sick else 2.0**16, growth_interval=5000)
    session = watch(model, optimizer, scaler=scaler)
    for near, colour in data.batches(128, 180):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = model(near)
            loss = 1e-5 * F.mse_loss(guess.float(), colour)
        scaler.scale(loss).backward()
        session.step(loss, inputs=near, outputs=guess, targets=colour)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("fp16_underflow")
def scaler_for_the_other_device(watch: Watch, *, seed: int, sick: bool) -> float:
    """``enabled=cuda.is_available()``: on this processor autocast still runs in float16, and nothing is scaled."""
    data = digits(seed)
    model = dense(64, 96, 16, 96, 64, act=nn.ELU)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for rows, _ in data.batches(256, 160):
        with torch.autocast("cpu", dtype=torch.float16):
            guess = model(rows)
        loss = 5e-4 * (guess.float() - rows).square().mean(1).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=guess, targets=rows)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_inputs)
