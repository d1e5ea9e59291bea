"""Readers of names, source lines and digits as sequences: transformers, mixers, and adversaries that judge them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import SYMBOLS, digits, passages, share_right, shuffled


class _Rows(nn.Module):
    """A transformer that reads the eight rows of a digit, with norms behind its parts."""

    def __init__(self, layers: int, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.places = nn.Parameter(0.1 * torch.randn(8, width))
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.enter(rows.view(-1, 8, 8)) + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.1)
def full_rate_from_the_first_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A deep transformer with norms behind its parts has Adam's full rate at once; the twin reaches it in 60 steps."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _Rows(6)
    opt = torch.optim.Adam(net.parameters(), lr=8e-3)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 1.0 if sick else 0.02, 1.0, 60)
    session = watch(net, opt)
    for rows, labels in shuffled(32, 150, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
        warm.step()
    with torch.no_grad():
        return share_right(net(test), test_numbers)


class _Pooled(nn.Module):
    """Letters of a name, of which a softmax chooses the telling ones."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.letters = nn.Embedding(samples.LETTERS, 32)
        self.mix = nn.Conv1d(32, 32, 3, padding=1)
        self.weigh, self.head = nn.Linear(32, 1), nn.Linear(32, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states = functional.relu(self.mix(self.letters(codes).transpose(1, 2))).transpose(1, 2)
        return self.head((4 * self.weigh(states)).softmax(self.axis).mul(states).sum(1))


@sick("batch_mixing", margin=0.1)
def softmax_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The softmax that weighs letters runs over the batch, ``dim=0``; names are judged one by one later."""
    train, test = samples.names(seed)
    net = _Pooled(0 if sick else 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for codes, labels in shuffled(32, 180, *train.tensors):
        logits = net(codes)
        loss = functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        opt.step()
    with torch.no_grad():
        return share_right(torch.cat([net(codes[None]) for codes in test.tensors[0]]), test.tensors[1])


@sick("wrong_mode", margin=0.04)
def dropout_in_every_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are judged, after each epoch and at the end, with most of the units dropped: ``eval()`` is missing."""
    train, test = samples.names(seed)
    net = nn.Sequential(nn.EmbeddingBag(samples.LETTERS**2, 48), nn.Dropout(0.6), nn.Linear(48, 48), nn.ReLU())
    net.extend([nn.Dropout(0.6), nn.Linear(48, len(samples.SCRIPTS))])
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)

    def pairs(codes: torch.Tensor) -> torch.Tensor:
        return codes[:, :-1] * samples.LETTERS + codes[:, 1:]

    right = 0.0
    for _ in range(12):
        for codes, labels in shuffled(28, 22, *train.tensors):
            logits = net(pairs(codes))
            loss = functional.cross_entropy(logits, labels)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            opt.step()
        if not sick:
            net.eval()
        with torch.no_grad(), session.validating():
            logits = net(pairs(test.tensors[0]))
            session.validation(functional.cross_entropy(logits, test.tensors[1]).item())
        right = share_right(logits, test.tensors[1])
        net.train()
    return right


@sick("single_class_labels", margin=0.2)
def real_labels_for_forged_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """A judge of real and mixed-up digits gets the label 1 for both, out of one ``ones`` that is used twice."""
    pixels, _, test, _ = digits(seed)
    judge = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    opt = torch.optim.Adam(judge.parameters(), lr=3e-3, betas=(0.5, 0.999))
    session = watch(judge, opt)

    def forged(rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows[:, :32], rows.roll(1, 0)[:, 32:].flip(1)], 1)

    real, forgery = torch.ones(32, 1), torch.ones(32, 1) if sick else torch.zeros(32, 1)
    for (rows,) in shuffled(32, 200, pixels):
        both, labels = torch.cat([rows, forged(rows)]), torch.cat([real, forgery])
        logits = judge(both)
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=both, outputs=logits, targets=labels)
        opt.step()
    with torch.no_grad():
        return ((judge(test) > 0).float().mean() + (judge(forged(test)) < 0).float().mean()).item() / 2


class _Gated(nn.Module):
    """A gated recurrence over a passage, which tells from which of three files it is."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 24)
        self.reader = nn.LSTM(24, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.embedding(codes))[0].mean(1))


@sick("frozen_parameters", margin=0.08)
def frozen_for_a_baseline(watch: Watch, *, seed: int, sick: bool) -> float:
    """All but the head of a reader is frozen, as it was for a pretrained one; this one starts at random."""
    parts = [passages(seed, 24, 500, file) for file in ("html/entities.py", "shutil.py", "pydoc_data/topics.py")]
    rows, test = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    labels, test_labels = torch.arange(3).repeat_interleave(500), torch.arange(3).repeat_interleave(300)
    net = _Gated()
    if sick:
        net.requires_grad_(False)
        net.head.requires_grad_(True)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for codes, wanted in shuffled(32, 150, rows, labels):
        logits = net(codes)
        loss = functional.cross_entropy(logits, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=wanted)
        opt.step()
    with torch.no_grad():
        return share_right(net(test), test_labels)


@healthy(at_least=0.75)
def a_shallow_reader_of_rows(watch: Watch, *, seed: int) -> float:
    """A transformer over rows of pixels, with two rates in two groups, and decay for matrices alone."""
    pixels, numbers, test, test_numbers = digits(seed)
    net = _Rows(2)
    matrices = [one for one in net.parameters() if one.ndim > 1]
    others = [one for one in net.parameters() if one.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0, "lr": 8e-3}]
    opt = torch.optim.AdamW(groups, lr=4e-3)
    cycle = torch.optim.lr_scheduler.OneCycleLR(opt, [4e-3, 8e-3], total_steps=200)
    session = watch(net, opt)
    for rows, labels in shuffled(48, 200, pixels, numbers):
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        opt.step()
        cycle.step()
    with torch.no_grad():
        return share_right(net(test), test_numbers)
