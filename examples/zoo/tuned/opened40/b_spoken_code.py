"""Transformers and recurrent networks that read and write text: Python's sources, its manual, and names."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data, text
from examples.zoo.loops import accuracy, r_squared
from examples.zoo.tuned.opened40.b_provisions import series, spelt


class Writer(nn.Module):
    """A small causal transformer of characters, with post-normalisation if it is told so."""

    def __init__(self, *, width: int = 32, depth: int = 1, before: bool = True, length: int = 24) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(CHARACTERS, width), nn.Embedding(length, width)
        for table in (self.characters, self.places):
            nn.init.normal_(table.weight, std=0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=before)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, T, C) of the next characters."""
        length = codes.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        states = self.characters(codes) + self.places(torch.arange(length))
        return self.head(self.norm(self.layers(states, mask, is_causal=True)))


def next_loss(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of all places."""
    return functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def write(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, data: Data, *, steps: int, scheduler: Any = None
) -> float:
    """Trains a writer, and returns how often its likeliest character is the next one."""
    session = watch(model, optimizer)
    for codes, following in data.batches(32, steps):
        logits = model(codes)
        loss = next_loss(logits, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def a_rate_for_fine_tuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer without pretraining has the 2e-5 of a recipe for fine tuning; the twin has 5e-3."""
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 5e-3)
    return write(watch, model, optimizer, text(seed, length=24), steps=200)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.03)
def post_norm_at_full_speed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four layers with their norm behind them start at the full rate of Adam; the twin warms up over 60 steps."""
    model = Writer(depth=4, before=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.3e-2, betas=(0.9, 0.98))
    scheduler = None if sick else torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 60))
    return write(watch, model, optimizer, text(seed, length=12), steps=150, scheduler=scheduler)


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"), margin=0.1)
def a_warm_up_that_nobody_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """A warm-up from 0 is made, and ``scheduler.step`` is never called, so the rate stays 0; the twin calls it."""
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 20))
    return write(
        watch, model, optimizer, text(seed, length=24), steps=180, scheduler=None if sick else scheduler
    )  # fmt: skip


@sick("poor_initialization", also=("exploding_gradients", "dead_units", "learning_rate_too_high"), margin=0.05)
def uniform_from_nought_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.uniform_`` fills convolutions over series with weights from 0 to 1; the twin has the default ones."""
    data = series(seed)
    model = nn.Sequential(
        nn.Conv1d(20, 32, 1), nn.ReLU(), nn.Conv1d(32, 32, 1), nn.ReLU(), nn.Conv1d(32, 32, 1), nn.ReLU()
    ).extend([nn.Flatten(), nn.Linear(32, 1)])
    for layer in model:
        if sick and isinstance(layer, nn.Conv1d | nn.Linear):
            nn.init.uniform_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for windows, coming in data.batches(64, 150):
        outputs = model(windows)
        loss = functional.mse_loss(outputs, coming)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows, outputs=outputs, targets=coming)
        optimizer.step()
    return r_squared(model, data)


@sick("wrong_output_or_loss", margin=0.03)
def probabilities_taken_for_logarithms(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets a softmax's probabilities and not their logarithms; the twin takes ``log_softmax``."""
    data = text(seed, length=16)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters, self.head = nn.Embedding(CHARACTERS, 24), nn.Linear(48, CHARACTERS)
            self.states = nn.LSTM(24, 48, batch_first=True)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            logits = self.head(self.states(self.characters(codes))[0])
            return logits.softmax(-1) if sick else logits.log_softmax(-1)

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.nll_loss(outputs.flatten(0, 1), following.flatten())
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return accuracy(model, data)


class Attending(nn.Module):
    """Letters that are weighed by one query, over the last dimension of scores or over the first one."""

    def __init__(self, *, over: int = 1, hidden: float = -1e4) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 32)
        self.mixed = nn.Conv1d(32, 32, 3, padding=1)
        self.query, self.head = nn.Linear(32, 1), nn.Linear(32, len(samples.SCRIPTS))
        self.over, self.hidden = over, hidden

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        """Returns a logit for each script."""
        states = self.mixed(self.letters(names).transpose(1, 2)).relu().transpose(1, 2)
        scores = self.query(states.tanh())[..., 0].masked_fill(names == 0, self.hidden)
        return self.head((scores.softmax(self.over)[..., None] * states).sum(1))


def spell(watch: Watch, model: nn.Module, data: Data, *, steps: int, rate: float = 5e-3) -> float:
    """Trains a reader of names, and returns its accuracy."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    session = watch(model, optimizer)
    for names, scripts in data.batches(32, steps):
        logits = model(names)
        loss = functional.cross_entropy(logits, scripts)
        model.zero_grad()
        loss.backward()
        session.step(loss, inputs=names, outputs=logits, targets=scripts)
        optimizer.step()
    return accuracy(model, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.1)
def a_name_of_padding_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Some names are empty, and a softmax over minus infinities is NaN; the twin hides padding with -10,000."""
    data = spelt(seed)
    names = data.inputs.clone()
    names[torch.randperm(len(names))[:6]] = 0
    model = Attending(hidden=-math.inf if sick else -1e4)
    return spell(watch, model, Data(names, data.targets, data.test_inputs, data.test_targets), steps=150)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.03)
def sixteen_small_batches_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of 16 small batches are added at a rate for one large one; the twin divides each loss by 16."""
    data = series(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for step, (windows, coming) in enumerate(data.batches(8, 1280), 1):
        outputs = model(windows)
        loss = functional.mse_loss(outputs, coming)
        (loss if sick else loss / 16).backward()
        if step % 16 == 0:
            session.step(loss, inputs=windows, outputs=outputs, targets=coming)
            optimizer.step()
            optimizer.zero_grad()
    return r_squared(model, data)
