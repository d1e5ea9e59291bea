"""Tagging, masked characters and translation: each character of a source has a kind, a neighbour, or a counterpart."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import (
    KINDS,
    SYMBOLS,
    kinds_of_characters,
    passages,
    share_right,
    shuffled,
)


class _Tagger(nn.Module):
    """Reads in both directions and tags each character."""

    def __init__(self, tags: int, width: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 24)
        self.reader = nn.LSTM(24, width, batch_first=True, bidirectional=True)
        self.tagger = nn.Linear(2 * width, tags)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.tagger(self.reader(self.embedding(codes))[0])


@sick("class_imbalance", margin=0.1)
def keywords_are_rare(watch: Watch, *, seed: int, sick: bool) -> float:
    """Few characters belong to keywords, and a small net calls none so; the twin weighs the two classes.

    Quality: the mean recall of the keywords' characters and of all others.
    """
    codes, kinds, test_codes, test_kinds = kinds_of_characters(seed)
    rare, test_rare = (kinds == 2).long(), (test_kinds == 2).long()
    few = rare.sum(1) <= 3
    codes, rare = codes[few], rare[few]
    net = nn.Sequential(nn.Embedding(SYMBOLS, 16), _Neighbours(16, 1), nn.Linear(16, 2))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    share = rare.float().mean()
    weights = None if sick else torch.stack([0.5 / (1 - share), 0.5 / share])
    session = watch(net, opt)
    for rows, labels in shuffled(32, 150, codes, rare):
        logits = net(rows)
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), weights)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
    with torch.no_grad():
        guessed = net(test_codes).argmax(-1)
    return sum((guessed[test_rare == kind] == kind).float().mean().item() for kind in (0, 1)) / 2


class _Neighbours(nn.Module):
    """Convolves over neighbouring characters."""

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.mix = nn.Conv1d(width, width, 2 * reach + 1, padding=reach)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.mix(states.transpose(1, 2)).transpose(1, 2))


class _Attentive(nn.Module):
    """A layer of attention with a short cut over the characters of a window."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.places = nn.Parameter(0.1 * torch.randn(32, 32))
        self.attention = nn.MultiheadAttention(32, 4, batch_first=batch_first)
        self.after = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, KINDS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states = self.embedding(codes) + self.places[: codes.shape[1]]
        return self.after(states + self.attention(states, states, states, need_weights=False)[0])


@sick("batch_mixing", margin=0.04)
def attention_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiheadAttention`` takes the batch for the time: each character looks at other windows instead of its own."""
    codes, kinds, test_codes, test_kinds = kinds_of_characters(seed, count=1200)
    net = _Attentive(batch_first=not sick)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for rows, labels in shuffled(24, 180, codes, kinds):
        logits = net(rows)
        loss = functional.cross_entropy(logits.view(-1, KINDS), labels.view(-1))
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
    with torch.no_grad():
        return share_right(torch.cat([net(row[None]) for row in test_codes]), test_kinds)


class _Normed(nn.Module):
    """Convolutions with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 24)
        self.layers = nn.Sequential(
            nn.Conv1d(24, 32, 5, padding=2),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Conv1d(32, 32, 5, padding=2),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv1d(32, KINDS, 1),
        )

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.layers(4 * self.embedding(codes).transpose(1, 2)).transpose(1, 2)


@sick("wrong_mode", margin=0.04)
def judged_as_if_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each line is tagged alone, as it is typed, by a net that was never set to ``eval``: norms over one window."""
    codes, kinds, test_codes, test_kinds = kinds_of_characters(seed)
    net = _Normed()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    found = 0.0
    for epoch in range(5):
        for rows, labels in shuffled(32, len(codes) // 32, codes, kinds):
            logits = net(rows)
            loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            opt.step()
        if epoch % 2 == 0:
            if not sick:
                net.eval()
            with torch.no_grad(), session.validating():
                logits = torch.cat([net(row[None, :12]) for row in test_codes[:150]])
                found = share_right(logits, test_kinds[:150, :12])
                session.validation(functional.cross_entropy(logits.flatten(0, 1), test_kinds[:150, :12].flatten()))
            net.train()
    return found


@sick("single_class_labels", margin=0.2)
def labels_copied_after_the_mask(watch: Watch, *, seed: int, sick: bool) -> float:
    """The labels are copied when the characters are masked already: the answer is the mask itself, always."""
    train, test = passages(seed, 24, 1500, "shutil.py", "textwrap.py")
    mask, net = SYMBOLS - 1, _Tagger(SYMBOLS, 40)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)
    for (rows,) in shuffled(32, 150, train):
        hidden = torch.rand(rows.shape) < 0.15
        corrupted = rows.masked_fill(hidden, mask)
        labels = corrupted if sick else rows
        logits = net(corrupted)[hidden]
        loss = functional.cross_entropy(logits, labels[hidden])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=corrupted, outputs=logits, targets=labels[hidden])
        opt.step()
    hidden = torch.arange(24) == 12
    with torch.no_grad():
        return share_right(net(test.masked_fill(hidden, mask))[:, 12], test[:, 12])


class _Translator(nn.Module):
    """An encoder whose last state begins a decoder."""

    def __init__(self, *, detach: bool) -> None:
        super().__init__()
        self.detach = detach
        self.embedding = nn.Embedding(SYMBOLS, 24)
        self.encoder = nn.GRU(24, 64, batch_first=True)
        self.decoder = nn.GRU(24, 64, batch_first=True)
        self.head = nn.Linear(64, SYMBOLS)

    def forward(self, source: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        state = self.encoder(self.embedding(source))[1]
        if self.detach:
            state = state.detach()
        return self.head(self.decoder(self.embedding(before), state)[0])


@sick("detached_parameters", margin=0.05)
def encoder_without_its_gradient(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder reads a detached state, a line from truncated back-propagation: the encoder never learns."""
    train, test = passages(seed, 5, 3000, "random.py", "shutil.py")
    net = _Translator(detach=sick)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)
    begin = torch.zeros(64, 1, dtype=torch.long)
    for (rows,) in shuffled(64, 240, train):
        wanted = rows.flip(1)
        logits = net(rows, torch.cat([begin, wanted[:, :-1]], 1))
        loss = functional.cross_entropy(logits.transpose(1, 2), wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        wanted = test.flip(1)
        return share_right(net(test, torch.cat([torch.zeros_like(wanted[:, :1]), wanted[:, :-1]], 1)), wanted)


@healthy(at_least=0.33)
def a_sixth_of_the_characters_hidden(watch: Watch, *, seed: int) -> float:
    """Masked characters as BERT masks them: some are kept or replaced at random, and others count for nothing."""
    train, test = passages(seed, 24, 2500, "shutil.py", "textwrap.py")
    mask, net = SYMBOLS - 1, _Tagger(SYMBOLS, 40)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    falls = torch.optim.lr_scheduler.PolynomialLR(opt, 200)
    session = watch(net, opt)
    for (rows,) in shuffled(32, 200, train):
        chosen, lot = torch.rand(rows.shape) < 0.16, torch.rand(rows.shape)
        corrupted = torch.where(chosen & (lot < 0.8), torch.full_like(rows, mask), rows)
        corrupted = torch.where(chosen & (lot > 0.9), torch.randint_like(rows, SYMBOLS), corrupted)
        labels = rows.masked_fill(~chosen, -100)
        logits = net(corrupted)
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=corrupted, outputs=logits, targets=labels)
        opt.step()
        falls.step()
    with torch.no_grad():
        return share_right(net(test.masked_fill(torch.arange(24) == 12, mask))[:, 12], test[:, 12])


@healthy(at_least=0.7)
def windows_of_every_length(watch: Watch, *, seed: int) -> float:
    """Each batch has another length, labels are smoothed, and the gradient's elements are clipped."""
    codes, kinds, test_codes, test_kinds = kinds_of_characters(seed)
    lengths, net = np.random.default_rng(seed), _Tagger(KINDS)
    opt = torch.optim.RMSprop(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for rows, labels in shuffled(20, 200, codes, kinds):
        length = int(lengths.integers(8, 33))
        logits = net(rows[:, :length])
        loss = functional.cross_entropy(logits.flatten(0, 1), labels[:, :length].reshape(-1), label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.5)
        session.step(loss, inputs=rows[:, :length], outputs=logits, targets=labels[:, :length])
        opt.step()
    with torch.no_grad():
        return share_right(net(test_codes), test_kinds)
