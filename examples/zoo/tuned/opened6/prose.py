"""Python's own sources: characters that follow, and modules that lines come from."""

import inspect
import math
import string
from functools import cache
from types import ModuleType

import torch
from torch import nn
from torch.nn import functional as fn

from examples.zoo.cases import Watch, sick

ALPHABET = string.ascii_lowercase + string.digits + " \n_()[]{}.,:=+-*/<>'\"#@"
UNKNOWN = len(ALPHABET)
SIZE = UNKNOWN + 1


def encode(text: str) -> torch.Tensor:
    return torch.tensor([(ALPHABET.find(letter) if letter in ALPHABET else UNKNOWN) for letter in text.lower()])


@cache
def corpus() -> torch.Tensor:
    """Returns 60,000 characters of two modules."""
    import pathlib
    import tempfile

    return encode((inspect.getsource(pathlib) + inspect.getsource(tempfile))[:60000])


def windows(count: int, length: int, *, held_out: bool = False) -> torch.Tensor:
    """Returns windows (count, length + 1) from the first nine tenths, or from the rest."""
    codes = corpus()
    cut = len(codes) * 9 // 10
    low, high = (cut, len(codes)) if held_out else (0, cut)
    starts = torch.randint(low, high - length - 1, (count, 1))
    return codes[starts + torch.arange(length + 1)]


@cache
def _lines_of(*modules: ModuleType) -> list[tuple[str, int]]:
    return [
        (line.strip(), label)
        for label, module in enumerate(modules)
        for line in inspect.getsource(module).splitlines()
        if len(line.strip()) > 18
    ]


def lines(seed: int, *, width: int = 32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns lines (N, width) of three modules and their modules, to train on and to judge by; -1 pads."""
    import calendar
    import fractions
    import shlex

    rows = _lines_of(calendar, fractions, shlex)
    picked = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()
    codes = torch.full((len(rows), width), SIZE)
    for row, index in enumerate(picked):
        coded = encode(rows[index][0][:width])
        codes[row, : len(coded)] = coded
    labels = torch.tensor([rows[index][1] for index in picked])
    cut = len(rows) * 3 // 4
    return codes[:cut], labels[:cut], codes[cut:], labels[cut:]


class Recurrent(nn.Module):
    """Predicts each next character with a recurrent layer."""

    def __init__(self, kind: type[nn.Module], *, width: int = 48, **options: object) -> None:
        super().__init__()
        self.letters = nn.Embedding(SIZE, 24)
        self.memory = kind(24, width, batch_first=True, **options)
        self.out = nn.Linear(width, SIZE)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.memory(self.letters(codes))[0])


def next_right(model: nn.Module, length: int = 24) -> float:
    model.eval()
    block = windows(150, length, held_out=True)
    with torch.no_grad():
        guess = model(block[:, :-1]).argmax(-1)
    model.train()
    return float((guess == block[:, 1:]).float().mean())


def bits(scores: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    return fn.cross_entropy(scores.reshape(-1, SIZE), block[:, 1:].reshape(-1))


@sick("clipping_too_strong")
def every_value_clipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` with the norm's usual limit divided by a million, in SGD."""
    model = Recurrent(nn.GRU)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    session = watch(model, optimizer)
    for _ in range(120):
        block = windows(16, 24)
        optimizer.zero_grad()
        scores = model(block[:, :-1])
        loss = bits(scores, block)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-6 if sick else 1.0)
        session.step(loss, inputs=block[:, :-1], outputs=scores, targets=block[:, 1:])
        optimizer.step()
    return next_right(model)


@sick("labels_unrelated")
def next_characters_of_other_windows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inputs and targets are drawn by two calls, each with its own offsets."""
    model = Recurrent(nn.LSTM)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(130):
        block = windows(16, 24)
        answers = windows(16, 24) if sick else block
        scores = model(block[:, :-1])
        loss = bits(scores, answers)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=block[:, :-1], outputs=scores, targets=answers[:, 1:])
        optimizer.step()
    return next_right(model)


@sick("poor_initialization", also=("saturated_units",))
def every_parameter_standard_normal(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_`` for every parameter, with its default deviation of 1."""
    model = Recurrent(nn.GRU, width=64)
    if sick:
        for weight in model.parameters():
            nn.init.normal_(weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(100):
        block = windows(12, 24)
        scores = model(block[:, :-1])
        loss = bits(scores, block)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=block[:, :-1], outputs=scores, targets=block[:, 1:])
        optimizer.step()
    return next_right(model)


class Lines(nn.Module):
    """An LSTM over a line; its last state says which module the line is from."""

    def __init__(self, *, mistake: str = "") -> None:
        super().__init__()
        self.letters = nn.Embedding(SIZE + 1, 16, padding_idx=SIZE)
        self.memory = nn.LSTM(16, 32)
        self.out = nn.Linear(32, 3)
        self.mistake = mistake

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        seen = self.letters(codes)
        rows, width, features = seen.shape
        seen = seen.reshape(width, rows, features) if self.mistake else seen.transpose(0, 1)
        return self.out(self.memory(seen)[0].mean(0))


@sick("batch_mixing")
def reshaped_where_transposed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reshape(time, batch, …)`` of values that lie as (batch, time, …)."""
    x, y, x_test, y_test = lines(seed)
    model = Lines(mistake="reshape" if sick else "")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows in torch.randperm(len(x)).split(32):
            scores = model(x[rows])
            loss = fn.cross_entropy(scores, y[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[rows], outputs=scores, targets=y[rows])
            optimizer.step()
    with torch.no_grad():
        return float((model(x_test).argmax(1) == y_test).float().mean())


class Attentive(nn.Module):
    """Attention over a line's characters, which may mask the padding."""

    def __init__(self, *, guarded: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(SIZE + 1, 24)
        self.score = nn.Linear(24, 1)
        self.out = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3))
        self.guarded = guarded

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        seen = self.letters(codes)
        padding = codes == SIZE
        if self.guarded:
            padding = padding & ~padding.all(1, keepdim=True)
        weights = self.score(seen.tanh())[..., 0].masked_fill(padding, -math.inf).softmax(1)
        return self.out((weights[..., None] * seen).sum(1))


@sick("non_finite_forward")
def a_line_of_padding_only(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax over scores that are all masked: one line in a hundred is blank."""
    x, y, x_test, y_test = lines(seed)
    x[::97] = SIZE
    model = Attentive(guarded=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows in torch.randperm(len(x)).split(24):
            scores = model(x[rows])
            loss = fn.cross_entropy(scores, y[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[rows], outputs=scores, targets=y[rows])
            optimizer.step()
    with torch.no_grad():
        return float((model(x_test).nan_to_num().argmax(1) == y_test).float().mean())
