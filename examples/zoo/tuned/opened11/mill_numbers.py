"""Where numbers end: logarithms of nothing, roots at zero, and short floats."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted


def _finite_accuracy(scores: torch.Tensor, labels: torch.Tensor) -> float:
    return samples.accuracy(scores, labels) if scores.isfinite().all() else 0.0


class Mixture(nn.Module):
    """A head of densities: says a mean and a deviation of the target."""

    def __init__(self, *, careless: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 24), nn.ReLU())
        self.mean, self.spread = nn.Linear(24, 1), nn.Linear(24, 1)
        self.careless = careless

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(rows)
        spread = self.spread(hidden)
        return self.mean(hidden), spread.relu() if self.careless else functional.softplus(spread) + 1e-3


@sick("non_finite_forward", margin=0.2)
def a_deviation_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The likelihood of a normal distribution with a deviation from a ReLU: where it is 0, the loss divides by it."""
    data = datasets.diabetes(seed)
    model = Mixture(careless=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, targets in data.batches(32, 160):
        mean, spread = model(rows)
        loss = (spread.log() + 0.5 * ((targets - mean) / spread).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=rows, outputs=mean, targets=targets)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_targets)


class Distances(nn.Module):
    """Scores of a class are what its prototype is near to: the squared distance, below zero."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 128), nn.LayerNorm(128))
        self.prototypes = nn.Parameter(torch.randn(10, 128) * 0.1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return -(self.body(pixels)[:, None] - self.prototypes).square().sum(2)


@sick("non_finite_forward", margin=0.2)
def a_softmax_by_the_book(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax by hand of squared distances in 128 dimensions: all exponentials become 0, and so does their sum."""
    data = datasets.digits(seed)
    model = Distances()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 160):
        scores = model(pixels)
        if sick:
            shares = scores.exp() / scores.exp().sum(1, keepdim=True)
            loss = -shares.gather(1, labels[:, None]).log().mean()
        else:
            loss = functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    return _finite_accuracy(predicted(model, data.test_inputs), data.test_targets)


@sick("non_finite_backward", margin=0.3)
def the_root_of_a_distance_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss takes the root of squared distances; for a pair of one and the same digit it is 0."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        other = torch.randint(len(pixels), (len(pixels),))
        embedded = model(pixels)
        squares = (embedded - embedded[other]).square().sum(1)
        distance = squares.sqrt() if sick else (squares + 1e-8).sqrt()
        alike = labels == labels[other]
        loss = torch.where(alike, squares, (1 - distance).clamp(min=0).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=embedded)
        optimizer.step()
    with torch.no_grad():
        known, unknown = model(data.inputs), model(data.test_inputs)
    if not unknown.isfinite().all():
        return 0.0
    return (data.targets[torch.cdist(unknown, known).argmin(1)] == data.test_targets).float().mean().item()


@sick("non_finite_backward", margin=0.3)
def a_branch_that_is_not_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where`` hides the logarithm of numbers below 0 from the loss, but not from its gradient."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for means, worst in DataLoader(train, batch_size=32, shuffle=True):
            guessed = model(means)
            error = guessed - worst
            size = error.abs()
            beyond = (size if sick else size.clamp(min=1.0)) - 0.5
            loss = torch.where(size < 1, 0.5 * error.square(), 0.5 + (2 * beyond).sqrt() - 1 + 0.5 * beyond).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=means, outputs=guessed, targets=worst)
            optimizer.step()
    guessed = predicted(model, test.tensors[0])
    return samples.explained(guessed, test.tensors[1]) if guessed.isfinite().all() else -1.0


@sick("fp16_underflow", margin=0.1)
def autocast_to_half_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Autocast to float16 without a GradScaler, and a loss that is small by its weight: gradients become 0."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    weight = 1e-5
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(128, 160):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            scores = model(pixels)
        loss = weight * functional.cross_entropy(scores.float(), labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)
