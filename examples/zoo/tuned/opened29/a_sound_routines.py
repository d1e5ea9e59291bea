"""Sound trainings whose loops look odd: masks, mixtures, restarts, pairs of rows, and frozen bodies."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened29.a_stock import advance, drawn, judged


@healthy(at_least=0.4)
def most_targets_are_left_out(watch: Watch, *, seed: int) -> float:
    """Masked characters are foretold from both sides: five of six targets are -100, which cross entropy leaves out."""
    data = datasets.text(seed, length=24)
    letters = nn.Embedding(datasets.CHARACTERS + 1, 32)
    body = nn.Sequential(nn.Conv1d(32, 64, 7, padding=3), nn.GELU(), nn.Conv1d(64, datasets.CHARACTERS, 3, padding=1))
    model = nn.ModuleList([letters, body])

    def masked(texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.rand(texts.shape) < 1 / 6
        return texts.masked_fill(hidden, datasets.CHARACTERS), texts.masked_fill(~hidden, -100)

    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(220):
        seen, asked = masked(*drawn(32, data.inputs))
        logits = body(letters(seen).transpose(1, 2))
        advance(session, optimizer, functional.cross_entropy(logits, asked), seen, logits, asked)
    seen, asked = masked(data.test_inputs)
    with torch.no_grad():
        found = body(letters(seen).transpose(1, 2)).argmax(1)
    return (found == asked)[asked >= 0].float().mean().item()


@healthy(at_least=0.9)
def two_pictures_are_laid_over_each_other(watch: Watch, *, seed: int) -> float:
    """Mixup: pictures and one-hot labels are mixed by Beta(1, 1), so that the loss stays near one half of its start."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for _ in range(250):
        pictures, labels = drawn(64, *train.tensors)
        share, order = torch.distributions.Beta(1.0, 1.0).sample().item(), torch.randperm(64)
        targets = functional.one_hot(labels, 10).float()
        mixed, truth = (share * both + (1 - share) * both[order] for both in (pictures, targets))
        logits = model(mixed)
        advance(session, optimizer, functional.cross_entropy(logits, truth), mixed, logits, truth)
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.6)
def restarts_of_the_rate_and_rare_features(watch: Watch, *, seed: int) -> float:
    """Warm restarts throw the rate up four times, and most of the counts are zero in most rows."""
    train, test = (part.tensors for part in samples.lines(seed, each=250))
    std, mean = torch.std_mean(train[0].log1p(), 0)

    def scaled(counts: torch.Tensor) -> torch.Tensor:
        return (counts.log1p() - mean) / (std + 0.1)

    model = nn.Sequential(nn.Linear(96, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    schedule = CosineAnnealingWarmRestarts(optimizer, 80, eta_min=1e-3)
    session = watch(model, optimizer)
    for _ in range(320):
        counts, files = drawn(64, *train)
        rows = scaled(counts)
        logits = model(rows)
        advance(session, optimizer, functional.cross_entropy(logits, files), rows, logits, files)
        schedule.step()
    return samples.accuracy(judged(model, scaled(test[0])), test[1])


@healthy(at_least=0.85)
def two_pictures_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of two, as of large pictures that fill a GPU: norms are of groups, and the loss jumps up and down."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(2, 400):
        logits = model(2 * pictures - 1)
        advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
    inputs = 2 * data.test_inputs - 1
    return samples.accuracy(judged(model, inputs), data.test_targets)


@healthy(at_least=0.85)
def a_probe_of_a_trained_body(watch: Watch, *, seed: int) -> float:
    """A body learns digits 0 to 4 and is frozen on purpose, in eval mode; a linear head learns all ten."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU())
    first = nn.Linear(96, 5)
    learns = torch.optim.Adam([*body.parameters(), *first.parameters()], lr=3e-3)
    known = data.targets < 5
    for _ in range(80):
        pictures, labels = drawn(64, data.inputs[known], data.targets[known])
        learns.zero_grad()
        functional.cross_entropy(first(body(pictures)), labels).backward()
        learns.step()
    body.eval().requires_grad_(False)
    head = nn.Linear(96, 10)
    model = nn.Sequential(body, head)
    optimizer = torch.optim.Adam(head.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 250):
        logits = model(pictures)
        advance(session, optimizer, functional.cross_entropy(logits, labels), pictures, logits, labels)
    return accuracy(model, data)
