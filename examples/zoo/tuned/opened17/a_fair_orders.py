"""Sound trainings whose data comes in an order, or whose parts learn at times of their own."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy

SCRIPTS = len(samples.SCRIPTS)


class _Reader(nn.Module):
    def __init__(self, symbols: int, outputs: int, width: int = 40) -> None:
        super().__init__()
        self.embedding, self.reader = nn.Embedding(symbols, 24), nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, outputs)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.embedding(codes))[0])


def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(inputs), labels)


@healthy(at_least=0.4)
def windows_that_grow(watch: Watch, *, seed: int) -> float:
    """A text model reads 8 characters at first, then 16, then 24; the quality is its share of right ones."""
    data = datasets.text(seed, length=24)
    model = _Reader(datasets.CHARACTERS, datasets.CHARACTERS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for length in (8, 16, 24, 24):
        for codes, following in DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True):
            start = int(torch.randint(25 - length, ()))
            some, their = codes[:, start : start + length], following[:, start : start + length]
            logits = model(some)
            loss = functional.cross_entropy(logits.flatten(0, 1), their.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    return _right(model, data.test_inputs, data.test_targets)


@healthy(at_least=0.55)
def batches_of_names_of_one_length(watch: Watch, *, seed: int) -> float:
    """A batch has names of like length, cut to the longest, and batches come in any order: shapes differ by step."""
    train, test = samples.names(seed)
    names, scripts = train.tensors
    model = _Reader(samples.LETTERS, SCRIPTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    session = watch(model, optimizer)

    def last(codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = (codes > 0).sum(1)
        cut = codes[:, : int(lengths.max())]
        return cut, model(cut)[torch.arange(len(cut)), lengths - 1]

    for _ in range(12):
        lengths = (names > 0).sum(1) + torch.rand(len(names))
        batches = list(lengths.argsort().split(32))
        for place in torch.randperm(len(batches)):
            rows = batches[place]
            inputs, logits = last(names[rows])
            loss = functional.cross_entropy(logits, scripts[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=scripts[rows])
            optimizer.step()
        cosine.step()
    with torch.no_grad():
        return samples.accuracy(last(test.tensors[0])[1], test.tensors[1])


class _Reversed(torch.autograd.Function):
    """Passes values on, and gradients with the other sign."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, values: torch.Tensor) -> torch.Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, slope: torch.Tensor) -> torch.Tensor:
        return -0.3 * slope


@healthy(at_least=0.7)
def features_that_hide_where_they_come_from(watch: Watch, *, seed: int) -> float:
    """Digits are labelled, blurred ones are not: gradients of a judge of the two are turned round in the body."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors

    def blurred(pictures: torch.Tensor) -> torch.Tensor:
        return functional.avg_pool2d(pictures, 3, 1, 1) * 1.5 + 0.3

    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 48), nn.ReLU(),
    )  # fmt: skip
    head, judge = nn.Linear(48, 10), nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))
    model = nn.ModuleDict({"body": body, "head": head, "judge": judge})
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    session = watch(model, optimizer)
    origins = torch.cat([torch.zeros(32), torch.ones(32)])
    for _ in range(180):
        here, there = torch.randint(len(images), (2, 32))
        inputs = torch.cat([images[here], blurred(images[there])])
        features = body(inputs)
        logits, doubts = head(features[:32]), judge(_Reversed.apply(features)).squeeze(1)
        loss = functional.cross_entropy(logits, labels[here])
        loss = loss + functional.binary_cross_entropy_with_logits(doubts, origins)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels[here])
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(head(body(blurred(test.tensors[0]))), test.tensors[1])


@healthy(at_least=0.85)
def new_digits_among_kept_old_ones(watch: Watch, *, seed: int) -> float:
    """Digits come in three groups, half of each batch from a memory of earlier groups: the loss jumps at each group."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for first, end in ((0, 4), (4, 7), (7, 10)):
        new = ((labels >= first) & (labels < end)).nonzero()[:, 0]
        old = (labels < end).nonzero()[:, 0]
        for _ in range(100):
            rows = torch.cat([new[torch.randint(len(new), (16,))], old[torch.randint(len(old), (32,))]])
            logits = model(images[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return _right(model, *test.tensors)


@healthy(at_least=0.9)
def an_average_of_visited_weights(watch: Watch, *, seed: int) -> float:
    """From half of the steps on, the rate is high and constant, and weights are averaged after each epoch."""
    train, test = samples.scenes(seed, count=1500)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 2),
    )  # fmt: skip
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for epoch in range(8):
        if epoch >= 4:
            optimizer.param_groups[0]["lr"] = 0.02
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if epoch >= 4:
            average.update_parameters(model)
    return _right(average, *test.tensors)
