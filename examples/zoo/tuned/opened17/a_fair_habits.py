"""Sound trainings whose batches, rates or losses look odd on purpose."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy

SCRIPTS = len(samples.SCRIPTS)


def _pictures(classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, classes),
    )  # fmt: skip


def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(inputs), labels)


@healthy(at_least=0.5)
def sparse_rows_of_a_bag_of_letter_pairs(watch: Watch, *, seed: int) -> float:
    """A table of 1,600 pairs of letters gets sparse gradients: most rows stand still in most steps."""
    train, test = samples.names(seed)

    def pairs(names: torch.Tensor) -> torch.Tensor:
        return names[:, :-1] * samples.LETTERS + names[:, 1:]

    bag = nn.EmbeddingBag(samples.LETTERS**2, SCRIPTS, mode="mean", sparse=True, padding_idx=0)
    nn.init.zeros_(bag.weight)
    model = nn.Sequential(bag)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, scripts in DataLoader(train, 32, shuffle=True):
            inputs = pairs(names)
            logits = 8 * model(inputs)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=scripts)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(pairs(test.tensors[0])), test.tensors[1])


@healthy(at_least=0.85)
def triangles_of_the_rate(watch: Watch, *, seed: int) -> float:
    """The rate swings between a tenth and all of 0.1 every 30 steps, and the loss swings with it."""
    train, test = samples.numerals(seed)
    model = _pictures()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    swing = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=15, cycle_momentum=False)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 42, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            swing.step()
    return _right(model, *test.tensors)


@healthy(at_least=0.85)
def noise_added_to_gradients(watch: Watch, *, seed: int) -> float:
    """Each gradient gets noise that fades with the steps, as in a paper on deep nets."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(48, 220)):
        inputs = 2 * pixels - 0.6
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        for weight in model.parameters():
            weight.grad.add_(torch.randn_like(weight), alpha=0.02 / (1 + step) ** 0.55)
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
    return _right(model, 2 * data.test_inputs - 0.6, data.test_targets)


@healthy(at_least=0.85)
def two_students_that_teach_each_other(watch: Watch, *, seed: int) -> float:
    """Mutual learning: two nets in one optimizer, each pulled to the labels and to the other one's shares."""
    train, test = samples.numerals(seed)
    pair = nn.ModuleList([_pictures(), nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))])
    optimizer = torch.optim.Adam(pair.parameters(), lr=3e-3)
    session = watch(pair, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            outputs = [model(images) for model in pair]
            loss = sum(functional.cross_entropy(logits, labels) for logits in outputs)
            for logits, other in (outputs, outputs[::-1]):
                shares = other.detach().softmax(1)
                loss = loss + functional.kl_div(logits.log_softmax(1), shares, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs[0], targets=labels)
            optimizer.step()
    return _right(pair[0], *test.tensors)


@healthy(at_least=0.9)
def blocks_skipped_by_chance(watch: Watch, *, seed: int) -> float:
    """Stochastic depth: each of four blocks is left out of a third of the steps, and gets no gradient then."""

    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(30, 32), nn.Linear(32, 1)
            self.blocks = nn.ModuleList(
                [nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)) for _ in range(4)]
            )

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.first(rows)
            for block in self.blocks:
                if not self.training:
                    hidden = hidden + 0.67 * block(hidden)
                elif torch.rand(()) < 0.67:
                    hidden = hidden + block(hidden)
            return self.head(hidden)

    data = datasets.breast_cancer(seed)
    model = Skipping()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 120):
        logits = model(rows).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(logits, labels.float())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return _right(model, data.test_inputs, data.test_targets)


@healthy(at_least=0.85)
def a_teacher_that_is_an_average(watch: Watch, *, seed: int) -> float:
    """Mean teacher: 300 labelled digits among 1,257, and a penalty on leaving a slow average of oneself."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    student = _pictures()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    session = watch(student, optimizer)
    for step in range(200):
        known, any_row = torch.randint(300, (24,)), torch.randint(len(images), (40,))
        logits = student(images[known] + 0.2 * torch.randn(24, 1, 8, 8))
        kept = teacher(images[any_row]).softmax(1)
        shares = student(images[any_row] + 0.3 * torch.randn(40, 1, 8, 8)).softmax(1)
        loss = functional.cross_entropy(logits, labels[known]) + min(step / 100, 1) * 5 * functional.mse_loss(
            shares, kept
        )
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[known], outputs=logits, targets=labels[known])
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    return _right(teacher, *test.tensors)


@healthy(at_least=0.6)
def rates_that_shrink_toward_the_first_layer(watch: Watch, *, seed: int) -> float:
    """Layer-wise rates from 0.0015 to 0.012 for four layers, each a group of its own, with labels smoothed by 0.1."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(
        nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 32), nn.ReLU(),
        nn.Linear(32, 6),
    )  # fmt: skip
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    groups = [{"params": layer.parameters(), "lr": 1.2e-2 / 2 ** (3 - depth)} for depth, layer in enumerate(layers)]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.05)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    session = watch(model, optimizer)
    for _ in range(5):
        for counts, files in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            logits = model(counts)
            loss = criterion(logits, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    return _right(model, *test.tensors)
