"""Recurrent nets of course work: forecasts, names read letter by letter, and decoders."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick


class Forecaster(nn.Module):
    """An LSTM over a series, whose last state gives the next values."""

    def __init__(self, ahead: int = 4, width: int = 32) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)
        self.head = nn.Linear(width, ahead)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(series[..., None])[0][:, -1])


def _columns(seed: int) -> samples.Pair:
    """Series (N, 12) of a photograph's columns from top to bottom, and the four bytes below."""
    values = datasets.patches(seed, size=16, count=1200).view(-1, 16, 16)[:, :, 7]
    return samples.split(seed, values[:, :12], (values[:, 12:] - 128) / 64)


@sick("target_out_of_range", margin=0.1)
def scaled_to_zero_mean_below_a_relu(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head ends in a ReLU, as grey levels are positive, but they were standardised; the twin's head is linear."""
    train, test = _columns(seed)
    model = nn.Sequential(Forecaster(), nn.ReLU() if sick else nn.Identity())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for series, following in DataLoader(train, 32, shuffle=True):
            inputs = (series - 128) / 64
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.smooth_l1_loss(outputs, following)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=following)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model((test.tensors[0] - 128) / 64), test.tensors[1])


class Reader(nn.Module):
    """A plain recurrence over letters, which answers from its last state, or from that of the last letter."""

    def __init__(self, last_place: bool, cell: str = "tanh", width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 24)
        self.rnn = nn.RNN(24, width, nonlinearity=cell, batch_first=True)
        self.head = nn.Linear(width, 8)
        self.last_place = last_place

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        states = self.rnn(self.letters(names))[0]
        if self.last_place:
            return self.head(states[:, -1])
        ends = (names > 0).sum(1) - 1
        return self.head(states[torch.arange(len(names)), ends])


@sick("vanishing_gradients", margin=0.1)
def the_last_state_after_much_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names end in 40 places of padding, and ``[:, -1]`` forgot them; the twin takes the last letter's state."""
    train, test = samples.names(seed)
    model = Reader(last_place=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            inputs = functional.pad(names, (0, 40))
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(functional.pad(test.tensors[0], (0, 40))), test.tensors[1])


@sick("exploding_gradients", also=("learning_rate_too_high",), margin=0.05)
def an_identity_that_nobody_clips(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrence of ReLUs starts as the identity and reads a digit in 16 steps, unclipped; the twin clips to 1."""
    data = datasets.digits(seed)
    rnn, head = nn.RNN(4, 48, nonlinearity="relu", batch_first=True), nn.Linear(48, 10)
    nn.init.eye_(rnn.weight_hh_l0)
    nn.init.normal_(rnn.weight_ih_l0, std=0.3)
    model = nn.ModuleList([rnn, head])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 200):
        outputs = head(rnn(inputs.view(-1, 16, 4))[0][:, -1])
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(head(rnn(data.test_inputs.view(-1, 16, 4))[0][:, -1]), data.test_targets)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_decoder_that_adds_up_its_places(watch: Watch, *, seed: int, sick: bool) -> float:
    """``loss += criterion(...)`` over all letters of a copy task, never divided; the twin divides by their number."""
    train, test = samples.names(seed, length=12, each=150)
    words = samples.LETTERS
    model = nn.ModuleDict({
        "letters": nn.Embedding(words, 24), "encoder": nn.GRU(24, 64, batch_first=True),
        "decoder": nn.GRUCell(24, 64), "head": nn.Linear(64, words),
    })  # fmt: skip

    def spelt(names: torch.Tensor) -> list[torch.Tensor]:
        state = model["encoder"](model["letters"](names))[1][0]
        before, scores = torch.zeros(len(names)).long(), []
        for place in range(6):
            state = model["decoder"](model["letters"](before), state)
            scores.append(model["head"](state))
            before = names[:, place]
        return scores

    optimizer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for names, _ in DataLoader(train, 32, shuffle=True):
            loss, scores = torch.zeros(()), spelt(names)
            for place, score in enumerate(scores):
                loss = loss + functional.cross_entropy(score, names[:, place])
            if not sick:
                loss = loss / len(scores)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=torch.stack(scores, 1), targets=names[:, :6])
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(torch.stack(spelt(test.tensors[0]), 1), test.tensors[0][:, :6])


@healthy(at_least=0.4)
def teacher_forcing_that_fades(watch: Watch, *, seed: int) -> float:
    """A forecaster is fed the truth less and less, and its own values more: the task gets harder as it learns."""
    train, test = _columns(seed)
    cell, head = nn.GRUCell(1, 32), nn.Linear(32, 1)
    model = nn.ModuleList([cell, head])

    def rolled(series: torch.Tensor, following: torch.Tensor, forced: float) -> torch.Tensor:
        state, found = torch.zeros(len(series), 32), []
        for value in series.unbind(1):
            state = cell(value[:, None], state)
        for place in range(4):
            found.append(series[:, -1:] + head(state))
            given = torch.rand(len(series), 1) < forced
            state = cell(torch.where(given, following[:, place : place + 1], found[-1]), state)
        return torch.cat(found, 1)

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for epoch in range(8):
        for series, following in DataLoader(train, 32, shuffle=True):
            inputs = (series - 128) / 64
            outputs = rolled(inputs, following, 1 - epoch / 7)
            loss = functional.mse_loss(outputs, following)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=inputs, outputs=outputs, targets=following)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(rolled((test.tensors[0] - 128) / 64, test.tensors[1], 0.0), test.tensors[1])
