"""Rates, schedules, clipping and accumulation: how long each step is."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened46.d_kit import Reader, faces, lower_halves, perceptron, rows_of_digits, scripts


@sick("learning_rate_too_high", also=("dead_units",), margin=0.1)
def sgd_rate_kept_for_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was changed from SGD to AdamW and its rate of 0.1 stayed; the twin takes 2e-3."""
    data = faces(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(512, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=120)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def rate_divided_for_a_smaller_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe's rate for batches of 4,096 was divided by 128 for Adam as well; the twin keeps it."""
    data = scripts(seed)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2 * (32 / 4096 if sick else 1))
    fit(watch, model, optimizer, data, steps=160, batch_size=32, validate_every=40)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def plateau_that_waits_for_a_rising_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` in mode "max" takes a validation loss, which falls; the twin's mode is "min"."""
    data = faces(seed)
    model = nn.Sequential(nn.Flatten(), perceptron(64, 64, 64, 10, activation=nn.Tanh))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    mode = "max" if sick else "min"
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, factor=0.1, patience=1)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(64, 300), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 10 == 0:
            validated = held_out_loss(model, data)
            session.validation(validated)
            scheduler.step(validated)
    return accuracy(model, data)


class PostNorm(nn.Module):
    """An encoder of digits' rows, which normalises after each sum."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True) for _ in range(6)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        hidden = self.embed(rows) + self.place
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden.mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def post_norm_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six post-norm blocks begin at the schedule's highest rate; the twin warms up in 40 steps."""
    data = rows_of_digits(seed)
    model = PostNorm()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, betas=(0.9, 0.98))
    warm = 1 if sick else 40
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (110 - step) / 70, 1.0)
    )
    fit(watch, model, optimizer, data, steps=108, batch_size=24, scheduler=scheduler)
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def clipped_by_value_to_a_ten_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each gradient is clipped to 1e-4, which was meant as the norm's precision, before SGD; the twin clips to 1."""
    data = lower_halves(seed)
    model = perceptron(32, 64, 64, 32, activation=nn.GELU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 250):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-4 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Elman(nn.Module):
    """A plain recurrence over a line's characters with a large recurrent matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.answer = nn.Embedding(datasets.CHARACTERS, 32), nn.Linear(48, datasets.CHARACTERS)
        self.recurrence = nn.RNN(32, 48, batch_first=True, nonlinearity="relu")
        nn.init.eye_(self.recurrence.weight_hh_l0)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns the next characters' logits (N, T, characters)."""
        return self.answer(self.recurrence(self.letters(codes))[0])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def a_clip_between_zeroing_and_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped just after they were zeroed, and not before the step; the twin clips after backward."""
    data = datasets.text(seed, length=20)
    model = Elman()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 180):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
        optimizer.zero_grad(set_to_none=False)
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            loss.backward()
        else:
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def twelve_micro_batches_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """The division by twelve micro-batches was lost when a trainer was rewritten as a loop; the twin divides."""
    data = faces(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(384, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for count, (inputs, targets) in enumerate(data.batches(8, 12 * 70), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        if not sick:
            loss = loss / 12
        loss.backward()
        if count % 12 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def pixels_summed_at_a_rate_for_means(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cross-entropy of all pixels of a batch is summed, at a rate for averages; the twin averages."""
    data = lower_halves(seed)
    model = perceptron(32, 96, 32, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    reduction = "sum" if sick else "mean"
    fit(
        watch, model, optimizer, data, steps=200,
        loss_function=lambda outputs, targets: functional.binary_cross_entropy_with_logits(
            outputs, targets, reduction=reduction
        ),
    )  # fmt: skip
    return explained(predicted(model, data.test_inputs).sigmoid(), data.test_targets)


class Factors(nn.Module):
    """Factors of pictures and of pixels, as of users and of films."""

    def __init__(self, users: int, films: int) -> None:
        super().__init__()
        self.users, self.films = nn.Embedding(users, 8), nn.Embedding(films, 8)
        self.tastes = nn.Embedding(films, 1)
        for table in (self.users, self.films, self.tastes):
            nn.init.normal_(table.weight, std=0.2)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Returns ratings."""
        user, film = pairs.unbind(1)
        return (self.users(user) * self.films(film)).sum(1) + self.tastes(film).squeeze(1)


@sick("no_update", margin=0.1)
def cleared_just_ahead_of_the_update(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` was moved to just before ``optimizer.step()``, so nothing moves; the twin zeroes after it."""
    pixels = datasets.digits(seed).inputs[:300]
    pairs = torch.cartesian_prod(torch.arange(300), torch.arange(64))
    train, test = samples.split(seed, pairs, (pixels - pixels.mean()).flatten() / pixels.std())
    data = Data(*train.tensors, *test.tensors)
    model = Factors(300, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for inputs, ratings in data.batches(512, 200):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, ratings)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=ratings)
        if sick:
            optimizer.zero_grad()
            optimizer.step()
        else:
            optimizer.step()
            optimizer.zero_grad()
    return r_squared(model, data)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.1)
def patience_that_compares_the_wrong_way(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping takes the highest validation loss for the best, and soon ends; the twin takes the lowest."""
    data = scripts(seed)
    model = Reader(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    best, waited = None, 0
    for step, (codes, labels) in enumerate(data.batches(32, 240), 1):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 10 == 0:
            validated = held_out_loss(model, data)
            session.validation(validated)
            better = best is None or (validated > best if sick else validated < best)
            best, waited = (validated, 0) if better else (best, waited + 1)
            if waited == 6:
                break
    return accuracy(model, data)
