"""Deeper and longer models of Python's sources."""

import torch
from torch import nn
from torch.nn import functional as fn

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened6.glyph_project import Glyphs, scaled
from examples.zoo.tuned.opened6.prose import SIZE, Recurrent, bits, lines, next_right, windows


class Rows(nn.Module):
    """A transformer over a digit's eight rows, with its norms after each addition."""

    def __init__(self, *, depth: int, width: int = 32) -> None:
        super().__init__()
        self.row = nn.Linear(8, width)
        self.places = nn.Parameter(0.3 * torch.randn(8, width))
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.out = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.out(self.blocks(self.row(images) + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",))
def norms_after_the_blocks(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven blocks with their norms last, and Adam's full rate from the first step on."""
    train, test = Glyphs(seed, train=True), Glyphs(seed, train=False)
    images, labels = scaled(train.images)[:, 0], torch.tensor(train.labels)
    model = Rows(depth=7)
    optimizer = torch.optim.Adam(model.parameters(), lr=7e-3, betas=(0.9, 0.98))
    shape = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if sick else min(1.0, (step + 1) / 70))
    session = watch(model, optimizer)
    for _ in range(90):
        rows = torch.randint(len(images), (24,))
        scores = model(images[rows])
        loss = fn.cross_entropy(scores, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[rows], outputs=scores, targets=labels[rows])
        optimizer.step()
        shape.step()
    with torch.no_grad():
        return float((model(scaled(test.images)[:, 0]).argmax(1) == torch.tensor(test.labels)).float().mean())


@sick("exploding_gradients", also=("clipping_ineffective", "learning_rate_too_high"))
def clipped_when_it_is_too_late(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrent network of ReLUs over sixty characters, which is clipped after its step."""
    model = Recurrent(nn.RNN, nonlinearity="relu", width=64)
    with torch.no_grad():
        model.memory.weight_hh_l0.copy_(1.15 * torch.eye(64) + 0.02 * torch.randn(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for _ in range(70):
        block = windows(10, 60)
        scores = model(block[:, :-1])
        loss = bits(scores, block)
        optimizer.zero_grad()
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=block[:, :-1], outputs=scores, targets=block[:, 1:])
        optimizer.step()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return next_right(model, 60)


class Classifier(nn.Module):
    """A transformer's encoder over a line."""

    def __init__(self, *, batch_first: bool, width: int = 24) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(SIZE + 1, width), nn.Embedding(32, width)
        self.look = nn.MultiheadAttention(width, 2, batch_first=batch_first)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 3)
        self.ask = nn.Parameter(torch.randn(1, 1, width))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        seen = self.letters(codes) + self.places(torch.arange(codes.shape[1]))
        seen = torch.cat([self.ask.expand(len(codes), 1, -1), seen], 1)
        mixed, _ = self.look(seen, seen, seen, need_weights=False)
        return self.out(self.norm(mixed[:, 0]))


@sick("batch_mixing")
def attention_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first`` forgotten in the attention: a line's token sees other lines' tokens, and none of its own."""
    x, y, x_test, y_test = lines(seed)
    model = Classifier(batch_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
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


@sick("vanishing_gradients")
def ten_layers_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network of sigmoids on counts of characters; its twin has ReLUs with a suitable start."""
    x, y, x_test, y_test = lines(seed)

    def counts(codes: torch.Tensor) -> torch.Tensor:
        return fn.one_hot(codes, SIZE + 1).float().sum(1)[:, :SIZE].sqrt()

    layers: list[nn.Module] = []
    for depth in range(9):
        linear = nn.Linear(SIZE if depth == 0 else 32, 32)
        if not sick:
            nn.init.kaiming_normal_(linear.weight)
        layers += [linear, nn.Sigmoid() if sick else nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for rows in torch.randperm(len(x)).split(32):
            scores = model(counts(x[rows]))
            loss = fn.cross_entropy(scores, y[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts(x[rows]), outputs=scores, targets=y[rows])
            optimizer.step()
    with torch.no_grad():
        return float((model(counts(x_test)).argmax(1) == y_test).float().mean())
