"""Healthy trainings whose batches, norms or schedules look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, breast_cancer, digits, iris
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened4.material import (
    convnet,
    explained,
    f1,
    mlp,
    scanlines,
    snippets,
)  # fmt: skip


@healthy(at_least=0.9)
def measurements_as_they_are_into_a_batch_norm(watch: Watch, *, seed):
    data = breast_cancer(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.65)
def batches_of_equal_length(watch: Watch, *, seed):
    """Sentences are sorted by length into buckets, the buckets are drawn at random: padding is scarce."""
    data = snippets(seed)
    lengths = 8 + (data.inputs[:, 0] * 7 + data.inputs[:, 1] * 3) % 41
    order = lengths.argsort()
    buckets = list(order.split(32))

    class Finder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(98, 24)
            self.filters = nn.Conv1d(24, 48, 5)
            self.head = nn.Linear(48, 6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.filters(self.embedding(codes).mT).relu().amax(-1))

    def labels_of(codes):
        texts = ["".join(chr(code + 32) for code in row) for row in codes.tolist()]
        words = ("self", "return", "if ", "for ", "not ", "None")
        return torch.tensor([[float(word in text) for word in words] for text in texts])

    model = Finder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step in range(260):
        if step % len(buckets) == 0:
            turns = torch.randperm(len(buckets)).tolist()
        bucket = buckets[turns[step % len(buckets)]]
        codes = data.inputs[bucket][:, : int(lengths[bucket].max())]
        labels = labels_of(codes)
        logits = model(codes)
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
    return f1(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.9)
def whole_table_in_every_step(watch: Watch, *, seed):
    """Descent on all 112 flowers at once: each batch is the same, on purpose."""
    data = iris(seed)
    model = mlp(4, 16, 3, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(200):
        optimizer.zero_grad()
        logits = model(data.inputs)
        loss = functional.cross_entropy(logits, data.targets)
        loss.backward()
        session.step(loss, inputs=data.inputs, outputs=logits, targets=data.targets)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def sum_of_losses_with_a_rate_to_match(watch: Watch, *, seed):
    data = digits(seed, images=True)
    model = convnet(12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / 64, momentum=0.9)

    def criterion(logits, labels):
        return functional.cross_entropy(logits, labels, reduction="sum")

    fit(watch, model, optimizer, data, steps=180, batch_size=64, loss_function=criterion)
    return accuracy(model, data)


@healthy(at_least=0.85)
def warm_restarts_that_shake_the_loss(watch: Watch, *, seed):
    data = digits(seed)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=40, T_mult=2)
    fit(watch, model, optimizer, data, steps=280, scheduler=scheduler, validate_every=40)
    return accuracy(model, data)


@healthy(at_least=0.85)
def residual_branches_that_begin_at_zero(watch: Watch, *, seed):
    """The last weight of each block, and of the network, starts at 0: the first outputs are all 0."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp(48, 48, 48)
            nn.init.zeros_(self.inner[2].weight)
            nn.init.zeros_(self.inner[2].bias)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows + self.inner(rows)

    data = digits(seed)
    head = nn.Linear(48, 10)
    nn.init.zeros_(head.weight)
    model = nn.Sequential(nn.Linear(64, 48), *(Block() for _ in range(5)), head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.9)
def bfloat16_with_blocks_that_are_skipped(watch: Watch, *, seed):
    """Stochastic depth under bfloat16 autocast: in some steps a block does not run and has no gradient."""

    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(64, 48)
            self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(48), *mlp(48, 64, 48)) for _ in range(4))
            self.head = nn.Linear(48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.stem(rows)
            for block in self.blocks:
                if not self.training or torch.rand(()) < 0.7:
                    hidden = hidden + block(hidden) * (1.0 if self.training else 0.7)
            return self.head(hidden)

    data, model = digits(seed), Skipping()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for rows, labels in data.batches(64, 220):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def recurrence_cut_into_pieces(watch: Watch, *, seed):
    """Truncated backpropagation: the state is detached after every piece of a long strip."""

    class Stream(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(6, 24, batch_first=True)
            self.head = nn.Linear(24, 1)

        def forward(self, rows: torch.Tensor, state=None):
            outputs, state = self.cell(rows, state)
            return self.head(outputs), state

    data, model = scanlines(seed, length=24, count=800), Stream()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for strips, _ in data.batches(40, 60):
        state = None
        for piece in range(0, 23, 8):
            rows, goal = strips[:, piece : piece + 7], strips[:, piece + 1 : piece + 8].mean(-1, keepdim=True)
            outputs, state = model(rows, state)
            state = tuple(one.detach() for one in state)
            loss = functional.mse_loss(outputs, goal)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=goal)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return explained(model(data.test_inputs)[0][:, -1], data.test_targets)


@healthy(at_least=0.85)
def mixtures_of_pictures_and_of_labels(watch: Watch, *, seed):
    """Mixup: targets are no classes but mixtures, and the training loss stays far above that of a validation."""
    data = digits(seed, images=True)
    model = convnet(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    beta = torch.distributions.Beta(0.5, 0.5)
    for images, labels in data.batches(64, 200):
        share = beta.sample((len(images), 1))
        other = torch.randperm(len(images))
        soft = functional.one_hot(labels, 10).float()
        mixed = share[..., None, None] * images + (1 - share[..., None, None]) * images[other]
        goal = share * soft + (1 - share) * soft[other]
        optimizer.zero_grad()
        logits = model(mixed)
        loss = functional.cross_entropy(logits, goal)
        loss.backward()
        session.step(loss, inputs=mixed, outputs=logits, targets=goal)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def norms_kept_in_eval_while_fine_tuning(watch: Watch, *, seed):
    """A trained network with batch norms goes on with small batches: its norms keep their statistics, on purpose."""
    data = digits(seed, images=True)
    model = convnet(10, norm=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    shifted = data.inputs.roll(1, -1)
    for images, labels in data.batches(64, 120):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    for layer in model:
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval().requires_grad_(False)
    data = Data(shifted, data.targets, data.test_inputs.roll(1, -1), data.test_targets)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(12, 200):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.75)
def strong_dropout_that_validates_better_than_it_trains(watch: Watch, *, seed):
    data = digits(seed)
    model = nn.Sequential(
        nn.Dropout(0.2), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.6), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=260, validate_every=52)
    return accuracy(model, data)
